#include "store/network.h"

#include <stddef.h>
#include <sys/vfs.h>

/* As in linux/magic.h, which does not have all of them. FUSE and 9P may be local; they do not say.
 */
static const struct {
    uint32_t type;
    const char *name;
} networks[] = {{0x6969, "NFS"},        {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},
                {0xff534d42, "CIFS"},   {0xfe534d42, "SMB"},    {0x517b, "SMB"},
                {0x00c36400, "Ceph"},   {0x5346414f, "AFS"},    {0x6b414653, "AFS"},
                {0x19830326, "BeeGFS"}, {0x20030528, "PVFS"},   {0x73757245, "Coda"},
                {0x65735546, "FUSE"},   {0x01021997, "9P"},     {0x7461636f, "OCFS2"},
                {0x01161970, "GFS2"},   {0xaad7aaea, "PanFS"}};

const char *es_network_name(uint32_t type)
{
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++)
        if (networks[i].type == type)
            return networks[i].name;
    return NULL;
}

const char *es_network_of(int fd)
{
    struct statfs st;
    return fstatfs(fd, &st) == 0 ? es_network_name((uint32_t)st.f_type) : NULL;
}
