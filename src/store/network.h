/* network.h : is a file on this machine's disks, or on those of another? */
#ifndef ES_STORE_NETWORK_H
#define ES_STORE_NETWORK_H

#include <stdint.h>

/*! es_network_name() : "NFS", "Lustre", ... for the type that statfs() gives of a file system whose
 *  files other machines may see at the same time; NULL for any other. */
const char *es_network_name(uint32_t type);

/*! es_network_of() : the same of the open file `fd`; NULL, too, if the system does not tell. */
const char *es_network_of(int fd);

#endif
