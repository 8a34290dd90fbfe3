#include <esscher/csv.h>

#include "base/error.h"
#include "base/memory.h"
#include "store/csv_text.h"
#include "store/file.h"

es_status es_csv_load(const char *path, es_budget *budget, es_csv *out, es_error *err)
{
    es_file file;
    char *text = NULL;
    *out = (es_csv){0};
    ES_TRY(es_file_open(path, &file, err));
    es_status status = ES_OK;
    if (file.size > ES_CSV_BYTES)
        status = es_fail_file(err, ES_E_LIMIT, path, -1, "csv.size", "a table has up to 64 MiB",
                              "the file has %llu bytes", (unsigned long long)file.size);
    if (status == ES_OK)
        status = es_mem_new(budget, (size_t)file.size, "text", (void **)&text, err);
    if (status == ES_OK)
        status = es_file_read(&file, 0, text, (size_t)file.size, err);
    es_file_close(&file);
    if (status == ES_OK)
        status = es_csv_parse(text, (size_t)file.size, path, budget, out, err);
    es_mem_free(budget, text);
    return status;
}
