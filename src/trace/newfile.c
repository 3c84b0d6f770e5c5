/* New files, whole or not at all. */
#define _GNU_SOURCE
#include "trace/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FD_PATH 40

static void fd_path(int fd, char *buf)
{
	snprintf(buf, FD_PATH, "/proc/self/fd/%d", fd);
}

/* Without a name, in the folder of path; only where it can be given one later. -1: not here. f->tmp serves as a buffer. */
static int open_nameless(struct new_file *f, const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;
	char link[FD_PATH];
	int fd;

	if (!slash)
		strcpy(f->tmp, ".");
	else
		sprintf(f->tmp, "%.*s/", (int)n, path);
	fd = open(f->tmp, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
	if (fd < 0)
		return -1;
	fd_path(fd, link);
	if (!access(link, F_OK))
		return fd;
	close(fd);
	return -1;
}

int new_file_open(struct new_file *f, const char *path)
{
	int rc;

	*f = (struct new_file){ .fd = -1, .tmp = malloc(strlen(path) + 32) };
	if (!f->tmp)
		return -ENOMEM;
	f->fd = open_nameless(f, path);
	sprintf(f->tmp, "%s.tmp.%ld", path, (long)getpid());
	if (f->fd < 0) {
		f->fd = open(f->tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		rc = -errno;
		if (f->fd < 0) {
			new_file_drop(f);
			return rc;
		}
		f->named = true;
	}
	return 0;
}

int new_file_keep(struct new_file *f, const char *path)
{
	char link[FD_PATH];

	/* A name of its own first: no call puts a nameless file in the place of another. */
	if (!f->named) {
		fd_path(f->fd, link);
		if (unlink(f->tmp) && errno != ENOENT)
			return -errno;
		if (linkat(AT_FDCWD, link, AT_FDCWD, f->tmp, AT_SYMLINK_FOLLOW))
			return -errno;
		f->named = true;
	}
	if (rename(f->tmp, path))
		return -errno;
	f->named = false;
	return 0;
}

void new_file_drop(struct new_file *f)
{
	if (!f->tmp)
		return;
	if (f->fd >= 0)
		close(f->fd);
	if (f->named)
		unlink(f->tmp);
	free(f->tmp);
	*f = (struct new_file){ .fd = -1 };
}
