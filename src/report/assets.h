/* SPDX-License-Identifier: Apache-2.0 */
/* assets.h : what of the page is not data: made from web/ when Esscher is built. */
#ifndef ES_REPORT_ASSETS_H
#define ES_REPORT_ASSETS_H

#include <stddef.h>

/* A file of web/, or what was bundled from several. */
typedef struct es_asset {
    const char *name;
    const unsigned char *bytes;
    size_t size;
    const char *hash; /* as Content-Security-Policy wants it: sha256-... */
} es_asset;

extern const es_asset es_asset_style;
extern const es_asset es_asset_script;  /* size 0: built without npm */
extern const es_asset es_asset_stills;  /* the same for Node.js: figures as files */
extern const es_asset es_asset_notices; /* licences of what is bundled, plain text */

/* What each experiment is about: the first line is its title, the rest is HTML. */
extern const es_asset es_asset_abouts[];
extern const size_t es_asset_abouts_count;

extern const char es_asset_missing[]; /* why there is no script; "" if there is one */

#endif
