/* Result files, whole or not at all. */
#include "report/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void clear(struct output *o)
{
	free(o->path);
	free(o->tmp);
	*o = (struct output){ 0 };
}

int output_open(struct output *o, const char *path, char *err, size_t errlen)
{
	struct stat st;
	int rc;

	*o = (struct output){ 0 };
	if (!strcmp(path, "-")) {
		o->f = stdout;
		return 0;
	}
	o->path = strdup(path);
	if (!o->path) {
		rc = -ENOMEM;
		goto failed;
	}
	if (!stat(path, &st) && !S_ISREG(st.st_mode)) { /* a device or a pipe is written as it is */
		o->f = S_ISDIR(st.st_mode) ? NULL : fopen(path, "we");
		rc = S_ISDIR(st.st_mode) ? -EISDIR : -errno;
	} else {
		o->tmp = malloc(strlen(path) + 32);
		if (o->tmp) {
			sprintf(o->tmp, "%s.tmp.%ld", path, (long)getpid());
			o->f = fopen(o->tmp, "we");
		}
		rc = -errno;
	}
	if (o->f)
		return 0;
failed:
	snprintf(err, errlen, "%s: %s", path, strerror(-rc));
	clear(o);
	return rc;
}

int output_commit(struct output *o, char *err, size_t errlen)
{
	int rc = 0;

	if (!o->f)
		return 0;
	errno = 0;
	if (fflush(o->f) || ferror(o->f))
		rc = errno ? -errno : -EIO;
	if (o->path && fclose(o->f) && !rc)
		rc = -errno;
	if (!rc && o->tmp && rename(o->tmp, o->path))
		rc = -errno;
	if (rc) {
		snprintf(err, errlen, "%s: %s", o->path ? o->path : "standard output", strerror(-rc));
		if (o->tmp)
			unlink(o->tmp);
	}
	clear(o);
	return rc;
}

void output_abort(struct output *o)
{
	if (o->f && o->path)
		fclose(o->f);
	if (o->tmp)
		unlink(o->tmp);
	clear(o);
}
