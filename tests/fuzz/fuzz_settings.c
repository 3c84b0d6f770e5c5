/* --set and --vary from anybody: the first line is --vary, the others --set. */
#include "fuzz.h"

#include "lab/settings.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size), *lines[16], *save = NULL;
	struct settings st;
	char err[300] = "";
	size_t nr = 0;

	for (char *l = text ? strtok_r(text, "\n", &save) : NULL; l && nr < 16; l = strtok_r(NULL, "\n", &save))
		lines[nr++] = l;
	if (nr) {
		if (settings_expand(lines + 1, nr - 1, lines, 1, &st, err, sizeof(err))) {
			fuzz_check_message(err, sizeof(err));
		} else {
			fuzz_check(st.nr >= 1 && st.nr <= SETTINGS_MAX_ROWS, "%zu rows", st.nr);
			settings_done(&st);
		}
	}
	free(text);
	return 0;
}
