/*
 * Machine descriptions: files, shipped ones and how a name is looked up. The work is done in desc_yaml.c and desc_check.c.
 *
 * A failed load leaves nothing to free; machine_desc_done may be called all the same.
 */
#include "machine/desc_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Sixty-four nodes with comments stay below a tenth of this. */
#define DESC_MAX_FILE (256UL << 10)

void machine_desc_done(struct machine_desc *d)
{
	free(d->source);
	d->source = NULL;
}

/* The file's name without folder and ending. */
static void take_name(const char *file, struct machine_desc *d)
{
	const char *slash = strrchr(file, '/');
	size_t n;

	snprintf(d->name, sizeof(d->name), "%s", slash ? slash + 1 : file);
	n = strlen(d->name);
	if (n > 5 && !strcmp(d->name + n - 5, ".yaml"))
		d->name[n - 5] = '\0';
}

int machine_desc_parse(const char *file, const char *text, size_t len, struct machine_desc *d, char *err, size_t errlen)
{
	struct desc_reader *r = calloc(1, sizeof(*r));
	int res = -ENOMEM;

	memset(d, 0, sizeof(*d));
	if (errlen)
		err[0] = '\0';
	if (r) {
		r->file = file;
		r->d = d;
		r->err = err;
		r->errlen = errlen;
		res = desc_read_yaml(r, text, len);
		res = res ? res : desc_convert(r);
		res = res ? res : desc_check(r);
		desc_reader_free(r);
		free(r);
	}
	if (res == -ENOMEM)
		snprintf(err, errlen, "%s: out of memory", file);
	if (res)
		machine_desc_done(d);
	else
		take_name(file, d);
	return res;
}

/* The whole of a regular file of acceptable size. */
static int read_file(const char *path, char **ret_text, size_t *ret_len, char *err, size_t errlen)
{
	/* Not blocking: opening a FIFO would wait for a writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), res = 0;
	char *text = malloc(DESC_MAX_FILE + 1);
	struct stat st;
	size_t len = 0;
	ssize_t n = 1;

	if (fd < 0 || !text || fstat(fd, &st)) {
		res = fd < 0 || text ? -errno : -ENOMEM;
		snprintf(err, errlen, "%s: %s", path, strerror(-res));
	} else if (!S_ISREG(st.st_mode)) {
		res = S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
		snprintf(err, errlen, "%s: %s, not a machine file", path, S_ISDIR(st.st_mode) ? "a folder" : "not a regular file");
	}
	while (!res && len <= DESC_MAX_FILE && n > 0) {
		n = read(fd, text + len, DESC_MAX_FILE + 1 - len);
		if (n > 0)
			len += (size_t)n;
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0) {
			res = -errno;
			snprintf(err, errlen, "%s: %s", path, strerror(-res));
		}
	}
	if (!res && len > DESC_MAX_FILE) {
		res = -EFBIG;
		snprintf(err, errlen, "%s: larger than %lu KiB, not a machine file", path, DESC_MAX_FILE >> 10);
	}
	if (fd >= 0)
		close(fd);
	if (res) {
		free(text);
		return res;
	}
	*ret_text = text;
	*ret_len = len;
	return 0;
}

int machine_desc_load(const char *path, struct machine_desc *d, char *err, size_t errlen)
{
	char *text;
	size_t len;
	int res;

	memset(d, 0, sizeof(*d));
	res = read_file(path, &text, &len, err, errlen);
	if (res)
		return res;
	res = machine_desc_parse(path, text, len, d, err, errlen);
	free(text);
	return res;
}

static const struct machine_file *shipped(const char *name)
{
	for (unsigned i = 0; i < nr_machine_files; i++)
		if (!strcmp(machine_files[i].name, name))
			return &machine_files[i];
	return NULL;
}

static int load_shipped(const struct machine_file *f, struct machine_desc *d, char *err, size_t errlen)
{
	char file[80];

	snprintf(file, sizeof(file), "%s.yaml", f->name);
	return machine_desc_parse(file, f->text, strlen(f->text), d, err, errlen);
}

int machine_desc_find(const char *name, struct machine_desc *d, char *err, size_t errlen)
{
	size_t n = strlen(name);
	const struct machine_file *f = shipped(name);

	if (strchr(name, '/') || (n > 5 && !strcmp(name + n - 5, ".yaml")))
		return machine_desc_load(name, d, err, errlen);
	memset(d, 0, sizeof(*d));
	if (f)
		return load_shipped(f, d, err, errlen);
	n = (size_t)snprintf(err, errlen, "no machine '%.60s'; there are", name);
	for (unsigned i = 0; i < nr_machine_files && n < errlen; i++)
		n += (size_t)snprintf(err + n, errlen - n, "%s %s", i ? "," : "", machine_files[i].name);
	if (n < errlen)
		snprintf(err + n, errlen - n, ", or give a file");
	return -ENOENT;
}

int machine_desc_list(int (*fn)(void *arg, const char *name, const char *title), void *arg)
{
	int res = 0;

	for (unsigned i = 0; i < nr_machine_files && !res; i++) {
		struct machine_desc *d = malloc(sizeof(*d));
		char err[200];

		if (!d)
			return -ENOMEM;
		res = load_shipped(&machine_files[i], d, err, sizeof(err));
		if (!res) {
			res = fn(arg, d->name, d->title);
			machine_desc_done(d);
		}
		free(d);
	}
	return res;
}

const char *machine_desc_text(const char *name)
{
	const struct machine_file *f = shipped(name);

	return f ? f->text : NULL;
}

const char *machine_desc_default(void)
{
	struct computer c;

	computer_probe("", &c);
	return desc_nearest(&c);
}
