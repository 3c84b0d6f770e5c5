/* The tree's life: from a file, freeing, taking statements out, copying. */
#include "script/parse_int.h"

#include "base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t script_file_value(uint32_t file, uint64_t index)
{
	uint64_t x = ((uint64_t)file + 1) * 0x9e3779b97f4a7c15ULL + index, v = rng_splitmix(&x);

	return v ? v : 1;
}

void script_stmt_free(struct script_stmt *st)
{
	if (!st)
		return;
	for (unsigned i = 0; i < SCRIPT_MAX_ARGS; i++)
		script_expr_free(st->arg[i]);
	for (unsigned i = 0; i < ARRAY_SIZE(st->expr); i++)
		script_expr_free(st->expr[i]);
	script_expr_free(st->dest);
	free(st->text);
	free(st->unit);
	free(st->published);
	free(st->variant);
	script_block_free(&st->body);
	script_block_free(&st->other);
	free(st);
}

void script_block_free(struct script_block *b)
{
	for (size_t i = 0; i < b->nr; i++)
		script_stmt_free(b->s[i]);
	free(b->s);
	*b = (struct script_block){ 0 };
}

void script_block_remove(struct script_block *b, size_t i)
{
	script_stmt_free(b->s[i]);
	memmove(b->s + i, b->s + i + 1, (b->nr - i - 1) * sizeof(*b->s));
	b->nr--;
}

void script_free(struct script *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->nr_variants; i++) {
		for (size_t j = 0; j < s->variant[i].nr_set; j++) {
			free(s->variant[i].set[j].name);
			free(s->variant[i].set[j].value);
		}
		free(s->variant[i].set);
		free(s->variant[i].name);
	}
	free(s->variant);
	for (uint32_t i = 0; i < s->nr_names; i++)
		free(s->names[i]);
	free(s->names);
	script_block_free(&s->body);
	free(s->file);
	free(s->title);
	free(s->source);
	free(s->pending);
	free(s->machine);
	free(s->note);
	free(s);
}

struct script *script_copy(const struct script *s)
{
	struct script *copy = NULL;
	char *text = NULL, err[200];
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	int rc = -ENOMEM;

	if (!f)
		return NULL;
	script_print(s, f);
	if (!fclose(f))
		rc = script_parse(s->file, text, len, &copy, err, sizeof(err));
	free(text);
	return rc ? NULL : copy;
}

/* At most one byte more than is allowed, so that too much is noticed. */
static int read_all(FILE *f, char *buf, size_t max, size_t *ret)
{
	*ret = fread(buf, 1, max, f);
	return ferror(f) ? -errno : 0; /* EISDIR, for one */
}

int script_load(const char *path, struct script **ret, char *err, size_t errlen)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t len = 0;
	int rc = f ? 0 : -errno;

	*ret = NULL;
	if (!rc) {
		text = malloc((size_t)SCRIPT_MAX_BYTES + 1);
		rc = text ? read_all(f, text, (size_t)SCRIPT_MAX_BYTES + 1, &len) : -ENOMEM;
		fclose(f);
	}
	if (!rc && len > SCRIPT_MAX_BYTES)
		rc = -EFBIG;
	if (rc == -EFBIG)
		snprintf(err, errlen, "%s: a script has at most %d bytes", path, SCRIPT_MAX_BYTES);
	else if (rc)
		snprintf(err, errlen, "%s: %s", path, strerror(-rc));
	else
		rc = script_parse(path, text, len, ret, err, errlen);
	free(text);
	return rc;
}
