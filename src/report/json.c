/* JSON as the project writes it. jansson passes a NULL on, so a failed allocation ends as a NULL or an error. */
#include "report/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *report_json(const char *command)
{
	return json_pack("{s:i, s:s}", "schema", JSON_SCHEMA, "command", command);
}

json_t *report_json_u64(uint64_t v)
{
	char text[24];

	if (v <= INT64_MAX)
		return json_integer((json_int_t)v);
	snprintf(text, sizeof(text), "%" PRIu64, v);
	return json_string(text);
}

/* Bytes of the UTF-8 character at p, 0: there is none. Over-long forms, surrogates and what is above U+10FFFF are none. */
static size_t utf8_length(const char *p)
{
	const unsigned char *s = (const unsigned char *)p;
	size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;

	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
	    (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

json_t *report_json_text(const char *s)
{
	static const char replacement[] = "\xef\xbf\xbd";
	char *copy = malloc(strlen(s) * 3 + 1), *to = copy;
	json_t *text;

	if (!copy)
		return NULL;
	while (*s) {
		size_t n = utf8_length(s);

		memcpy(to, n ? s : replacement, n ? n : 3);
		to += n ? n : 3;
		s += n ? n : 1;
	}
	*to = '\0';
	text = json_string(copy);
	free(copy);
	return text;
}

json_t *report_json_metric(const struct metric *m)
{
	double v = (double)m->value;

	if (!m->decimals)
		return report_json_u64(m->value);
	for (unsigned i = 0; i < m->decimals; i++)
		v /= 10;
	return json_real(v);
}

json_t *report_json_metrics(const struct metrics *ms)
{
	json_t *o = json_object();

	for (size_t i = 0; o && i < ms->nr; i++)
		if (json_object_set_new(o, ms->m[i].name, report_json_metric(&ms->m[i]))) {
			json_decref(o);
			return NULL;
		}
	return o;
}

int report_json_write(json_t *root, FILE *f)
{
	int rc;

	if (!root)
		return -ENOMEM;
	errno = 0;
	/* 12 figures: enough for every decimal that is kept, and free of the noise of binary fractions. */
	rc = json_dumpf(root, f, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(12));
	if (rc || fputc('\n', f) == EOF)
		rc = errno ? -errno : -EIO;
	json_decref(root);
	return rc;
}
