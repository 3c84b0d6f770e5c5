/*
 * After an execve the new image would run natively, unrecorded. So when the file is a program for this processor, the
 * emulator with this plugin is executed instead, from inside the callback that announces the call; everything else
 * (bad pointers, missing files, programs for other processors) is left to the emulator, which answers as the kernel
 * would. execveat is not followed.
 */
#define _GNU_SOURCE
#include "record/plan.h"
#include "record/plugin/plugin.h"
#include "record/plugin/qemu_plugin_api.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STRING_MAX (32 * 4096) /* the kernel's own limit for one argument */

static void free_strings(char **v)
{
	for (size_t i = 0; v && v[i]; i++)
		free(v[i]);
	free(v);
}

/* A NULL-terminated array of strings in guest memory. NULL: bad memory, or none left. */
static char **copy_strings(uint64_t at, char *scratch)
{
	size_t cap = 64, n = 0;
	char **v = calloc(cap, sizeof(*v));

	while (v && at) {
		uint64_t p;

		if (!guest_read(at + n * 8, &p, sizeof(p)) || (p && !guest_read_string(p, scratch, STRING_MAX)))
			goto bad;
		if (!p)
			break;
		if (n + 2 > cap) {
			char **w = realloc(v, 2 * cap * sizeof(*v));

			if (!w)
				goto bad;
			memset(w + cap, 0, cap * sizeof(*w));
			v = w;
			cap *= 2;
		}
		v[n] = strdup(scratch);
		if (!v[n])
			goto bad;
		n++;
	}
	return v;
bad:
	free_strings(v);
	return NULL;
}

/*
 * A program that has given up its user, or lives in another root, can't reach the recording from its next image. That it
 * can still open it says little: capabilities that outlived the user end with the image.
 */
static bool reachable(const struct ring_shared *s)
{
	int fd = open(s->path, O_RDWR | O_CLOEXEC);
	struct stat st;
	bool ours;

	if (fd < 0)
		return false;
	ours = !fstat(fd, &st) && (geteuid() == 0 || geteuid() == st.st_uid);
	close(fd);
	return ours && access(s->qemu, X_OK) == 0;
}

static void substitute(struct ring *r, const char *path, char **argv, char **envp)
{
	struct ring_shared *s = own.shared;
	char err[256], arg[RING_PATH_MAX * 2 + 160], self[PATH_MAX] = "";
	char *binary = (char *)(uintptr_t)qemu_plugin_path_to_binary();
	struct exec_command c;
	struct exec_plan p;

	if (binary && !realpath(binary, self))
		self[0] = '\0';
	free(binary);
	if (exec_plan_make(path, argv, self[0] ? self : NULL, &p, err, sizeof(err)) < 0)
		return;
	snprintf(arg, sizeof(arg), "%s,shm=%s,ring=%u,ticket=%llu", s->plugin, s->path, r->index,
		 (unsigned long long)r->sys_ticket);
	if (exec_command_make(&p, s->qemu, arg, envp, &c) == 0) {
		execve(s->qemu, c.argv, c.envp);
		exec_command_free(&c);
	}
	exec_plan_free(&p);
}

void exec_substitute(struct ring *r, uint64_t path, uint64_t argv, uint64_t envp)
{
	char *scratch = malloc(STRING_MAX), *name = NULL, **args = NULL, **env = NULL;

	if (r->discard || own.shared->off || !reachable(own.shared))
		goto out;
	if (!scratch || !guest_read_string(path, scratch, PATH_MAX))
		goto out;
	name = strdup(scratch);
	args = copy_strings(argv, scratch);
	env = copy_strings(envp, scratch);
	if (name && args && env)
		substitute(r, name, args, env);
out:
	free(scratch);
	free(name);
	free_strings(args);
	free_strings(env);
}
