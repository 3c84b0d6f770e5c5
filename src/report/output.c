/* Result files, whole or not at all. */
#include "report/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void clear(struct output *o)
{
	free(o->path);
	new_file_drop(&o->file);
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
		rc = new_file_open(&o->file, path);
		if (!rc) {
			int fd = fcntl(o->file.fd, F_DUPFD_CLOEXEC, 0); /* the stream is closed before the file gets its name */

			o->f = fd < 0 ? NULL : fdopen(fd, "w");
			rc = -errno;
			if (!o->f && fd >= 0)
				close(fd);
		}
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
	if (!rc && o->file.tmp)
		rc = new_file_keep(&o->file, o->path);
	if (rc)
		snprintf(err, errlen, "%s: %s", o->path ? o->path : "standard output", strerror(-rc));
	clear(o);
	return rc;
}

void output_abort(struct output *o)
{
	if (o->f && o->path)
		fclose(o->f);
	clear(o);
}
