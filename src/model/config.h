/* config.h : config.json, read from memory. */
#ifndef ES_MODEL_CONFIG_H
#define ES_MODEL_CONFIG_H

#include <stddef.h>

#include <esscher/model.h>

/*! es_config_parse() : as es_model_config_load(), from text; `file` is for messages. */
es_status es_config_parse(const unsigned char *bytes, size_t size, const char *file,
                          es_model_config *out, es_error *err);

#endif
