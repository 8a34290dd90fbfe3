/* replay.c : feeds every file of a corpus folder to a fuzz target once, without a fuzzer, so that
 * what a fuzzer once found is tested by every build. usage: replay_NAME FOLDER */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *folder, const char *name)
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
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 1;
}

int main(int argc, char **argv)
{
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    int count = 0;
    if (!folder) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    for (struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] == '.' ? 0 : replay(argv[1], entry->d_name);
    closedir(folder);
    printf("%d inputs\n", count);
    return count ? 0 : 1;
}
