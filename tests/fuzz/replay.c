/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c : feeds every file of a corpus folder to a fuzz target once, without a fuzzer, so that
 * what a fuzzer once found is tested by every build. usage: replay NAME FOLDER
 *
 * FUZZ_TARGETS is TARGET(NAME) for each fuzz_NAME.c, which is compiled with its
 * LLVMFuzzerTestOneInput named fuzz_NAME (tests/CMakeLists.txt). */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TARGET(name) int fuzz_##name(const uint8_t *data, size_t size);
FUZZ_TARGETS
#undef TARGET

typedef int fuzz_target(const uint8_t *data, size_t size);

static const struct {
    const char *name;
    fuzz_target *run;
} targets[] = {
#define TARGET(name) {#name, fuzz_##name},
    FUZZ_TARGETS
#undef TARGET
};

static fuzz_target *find(const char *name)
{
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
        if (strcmp(targets[i].name, name) == 0)
            return targets[i].run;
    return NULL;
}

static int replay(fuzz_target *target, const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    const size_t size = (size_t)ftell(file);
    rewind(file);
    /* Exactly as large as the input, so that AddressSanitizer sees one byte too far. */
    uint8_t *data = malloc(size ? size : 1);
    if (!data || fread(data, 1, size, file) != size) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    fclose(file);
    target(data, size);
    free(data);
    return 1;
}

int main(int argc, char **argv)
{
    fuzz_target *target = argc == 3 ? find(argv[1]) : NULL;
    DIR *folder = target ? opendir(argv[2]) : NULL;
    int count = 0;
    if (!folder) {
        fprintf(stderr, "usage: %s NAME FOLDER\n", argv[0]);
        return 2;
    }
    for (struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] == '.' ? 0 : replay(target, argv[2], entry->d_name);
    closedir(folder);
    printf("%d inputs\n", count);
    return count ? 0 : 1;
}
