/* Runs a fuzz target over files again: the program's arguments, folders taken as all that is in them. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static unsigned nr_run;

static void run_file(const char *path)
{
	FILE *f = fopen(path, "re");
	long size;
	uint8_t *data;

	fuzz_check(f && !fseek(f, 0, SEEK_END), "%s: %s", path, strerror(errno));
	size = ftell(f);
	rewind(f);
	/* Exactly as long as the input, so that a sanitizer sees a read beyond it. */
	data = malloc(size ? (size_t)size : 1);
	fuzz_check(data && fread(data, 1, (size_t)size, f) == (size_t)size, "%s: %s", path, strerror(errno));
	fclose(f);
	fprintf(stderr, "%s\n", path); /* the last line names the input when the process ends */
	LLVMFuzzerTestOneInput(data, (size_t)size);
	free(data);
	nr_run++;
}

static void run_path(const char *path)
{
	struct dirent **list;
	struct stat st;
	int n;

	fuzz_check(!stat(path, &st), "%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode)) {
		run_file(path);
		return;
	}
	n = scandir(path, &list, NULL, alphasort);
	fuzz_check(n >= 0, "%s: %s", path, strerror(errno));
	for (int i = 0; i < n; i++) {
		char name[4096];

		snprintf(name, sizeof(name), "%s/%s", path, list[i]->d_name);
		if (list[i]->d_name[0] != '.')
			run_path(name);
		free(list[i]);
	}
	free(list);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		run_path(argv[i]);
	printf("%u passed, %d failed\n", nr_run, nr_run == 0);
	return nr_run == 0;
}
