/* A script from anybody: parsed and printed, what is printed parses to the same text; or refused with one line that names the place. */
#include "fuzz.h"

#include "script/script.h"

#include <stdlib.h>
#include <string.h>

static char *printed(const struct script *s, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	fuzz_check(f != NULL, "out of memory");
	script_print(s, f);
	fclose(f);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script *s, *again;
	char err[300] = "", *text, *twice;
	size_t len, len2;

	if (script_parse("input", (const char *)data, size, &s, err, sizeof(err))) {
		fuzz_check_message(err, sizeof(err));
		fuzz_check(!strncmp(err, "input:", 6), "no place: %s", err);
		return 0;
	}
	text = printed(s, &len);
	if (len <= SCRIPT_MAX_BYTES) { /* printing may make it longer than a script may be */
		fuzz_check(!script_parse("again", text, len, &again, err, sizeof(err)), "%s in:\n%s", err, text);
		twice = printed(again, &len2);
		fuzz_check(len == len2 && !memcmp(text, twice, len), "printed\n%s\nand then\n%s", text, twice);
		free(twice);
		script_free(again);
	}
	free(text);
	script_free(s);
	return 0;
}
