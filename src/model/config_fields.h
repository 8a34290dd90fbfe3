/* SPDX-License-Identifier: Apache-2.0 */
/* config_fields.h : reads objects of config.json by tables of fields (arch.h). */
#ifndef ES_MODEL_CONFIG_FIELDS_H
#define ES_MODEL_CONFIG_FIELDS_H

#include <stdbool.h>

#include "checkpoint/json.h"
#include "model/arch.h"

enum { ES_CONFIG_WORD = 64 }; /* bytes of a word that is stored, its NUL included */

/* An object of config.json while it is read. Words that may have certain values only are stored and
 * checked at the end, so that the caller decides in which order problems are reported. */
typedef struct es_config_reading es_config_reading;
struct es_config_reading {
    es_json *j;
    const es_config_field *fields;
    bool seen[ES_ARCH_FIELDS];
    char word[ES_ARCH_FIELDS][ES_CONFIG_WORD]; /* of NONE and TRUE: what it is instead */
    es_json object[ES_ARCH_FIELDS];            /* of OBJECT: where it begins, unless it is null */
    es_config_draft *draft;
    /* Reads a key that is not in the table; NULL: such keys are skipped */
    es_status (*take_other)(es_config_reading *r, const es_json_text *key);
    const char *name; /* of the object, for messages about its keys */
    double theta;     /* that a key outside of objects states; 0: none */
};

/*! es_config_take_fields() : reads the object at r->j, every key of the table into its member of
 *  the draft. Other keys are skipped unless r->take_other is set: a config.json holds many keys
 *  that do not change the result, and more with every release of the program that writes it.
 *  @return : ES_OK; ES_E_FORMAT: config.json, config.range, config.duplicate. */
es_status es_config_take_fields(es_config_reading *r);

/*! es_config_check_values() : checks words against the values that are supported, in the order of
 *  the table, not of the file: the most important problem is reported first.
 *  @return : ES_OK; ES_E_UNSUPPORTED with the rule of the field. */
es_status es_config_check_values(const es_config_reading *r);

/*! es_config_check_complete() : checks that all required keys were there. A word that is null
 *  counts as missing; a number that is null was refused before.
 *  @return : ES_OK; ES_E_FORMAT (config.missing). */
es_status es_config_check_complete(const es_config_reading *r);

/*! es_config_take_rotaries() : reads rotary positions from the object that counts: rope_scaling
 *  unless it is null, else rope_parameters. r is the reading of the whole file, finished.
 *  @return : as es_config_take_fields(); ES_E_UNSUPPORTED, ES_E_FORMAT (config.rotary). */
es_status es_config_take_rotaries(es_config_reading *r);

#endif
