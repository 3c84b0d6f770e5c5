/*
 * Turns a path and arguments into an emulator command line: follows #! lines, refuses what is no x86-64 program,
 * keeps argv[0]. No state; allocates with malloc, which is safe in the plugin too (never called from a signal
 * handler).
 */
#define _GNU_SOURCE
#include "record/plan.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCRIPT_DEPTH 5
#define SCRIPT_LINE 256

static size_t count(char *const v[])
{
	size_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

static void free_vector(char **v)
{
	for (size_t i = 0; v && v[i]; i++)
		free(v[i]);
	free(v);
}

static char **copy_vector(char *const v[])
{
	size_t n = count(v);
	char **c = calloc(n + 1, sizeof(*c));

	for (size_t i = 0; c && i < n; i++) {
		c[i] = strdup(v[i]);
		if (!c[i]) {
			free_vector(c);
			return NULL;
		}
	}
	return c;
}

/* Reads the beginning of an executable regular file. Bytes read, or negative errno. */
static int read_head(const char *path, unsigned char *buf, size_t len, char *err, size_t errlen)
{
	struct stat st;
	ssize_t n;
	int fd, e;

	if (stat(path, &st) < 0) {
		e = errno;
		snprintf(err, errlen, "%s: %s", path, e == ENOENT ? "no such program" : strerror(e));
		return -e;
	}
	if (!S_ISREG(st.st_mode) || access(path, X_OK) < 0) {
		snprintf(err, errlen, "%s: not executable", path);
		return -EACCES;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		e = errno;
		snprintf(err, errlen, "%s: %s", path, strerror(e));
		return -e;
	}
	n = read(fd, buf, len);
	e = errno;
	close(fd);
	return n < 0 ? -e : (int)n;
}

/* Linux takes such a file as it is; the emulator must be handed the name that stays valid when descriptors are closed. */
static char *resolve(const char *path, const char *self)
{
	char buf[PATH_MAX], own[64];
	ssize_t n;

	snprintf(own, sizeof(own), "/proc/%d/exe", (int)getpid());
	if (self && (!strcmp(path, "/proc/self/exe") || !strcmp(path, "/proc/thread-self/exe") || !strcmp(path, own)))
		return strdup(self);
	if (!strncmp(path, "/proc/self/fd/", 14) || !strncmp(path, "/dev/fd/", 8)) {
		n = readlink(path, buf, sizeof(buf) - 1);
		if (n > 0) {
			buf[n] = '\0';
			if (buf[0] == '/' && access(buf, F_OK) == 0)
				return strdup(buf);
		}
	}
	return strdup(path);
}

static int check_elf(const char *path, const unsigned char *buf, size_t n, char *err, size_t errlen)
{
	Elf64_Ehdr h;
	const char *why = NULL;

	if (n < sizeof(h) || memcmp(buf, ELFMAG, SELFMAG) != 0) {
		snprintf(err, errlen, "%s: neither a program nor a script with #!", path);
		return -ENOEXEC;
	}
	memcpy(&h, buf, sizeof(h));
	if (h.e_ident[EI_CLASS] != ELFCLASS64)
		why = "a 32-bit program";
	else if (h.e_machine != EM_X86_64)
		why = "a program for another processor";
	else if (h.e_type != ET_EXEC && h.e_type != ET_DYN)
		why = "an object file";
	if (!why)
		return 0;
	snprintf(err, errlen, "%s: %s; only x86-64 programs can be recorded", path, why);
	return -ENOEXEC;
}

/* "#! interpreter one argument": a new path and arguments in p. */
static int follow_script(struct exec_plan *p, char *line, char *err, size_t errlen)
{
	char *s = line + 2, *arg = NULL, *e, **argv;
	size_t n = count(p->argv), k = 0;

	line[strcspn(line, "\n")] = '\0';
	s += strspn(s, " \t");
	for (e = s + strlen(s); e > s && (e[-1] == ' ' || e[-1] == '\t'); e--)
		e[-1] = '\0';
	arg = s + strcspn(s, " \t");
	if (*arg) {
		*arg++ = '\0';
		arg += strspn(arg, " \t");
	}
	if (!*s) {
		snprintf(err, errlen, "%s: #! names no interpreter", p->path);
		return -ENOEXEC;
	}
	argv = calloc(n + 4, sizeof(*argv));
	if (!argv)
		return -ENOMEM;
	argv[k++] = strdup(s);
	if (*arg)
		argv[k++] = strdup(arg);
	argv[k++] = p->path;
	for (size_t i = 1; i < n; i++)
		argv[k++] = p->argv[i];
	if (n)
		free(p->argv[0]);
	free(p->argv);
	p->argv = argv;
	p->path = strdup(s);
	return argv[0] && (!*arg || argv[1]) && p->path ? 0 : -ENOMEM;
}

int exec_plan_make(const char *path, char *const argv[], const char *self, struct exec_plan *ret, char *err, size_t errlen)
{
	struct exec_plan p = { .path = resolve(path, self), .argv = copy_vector(argv) };
	unsigned char head[SCRIPT_LINE + 1];
	int n = p.path && p.argv ? 0 : -ENOMEM;

	for (int depth = 0; n == 0; depth++) {
		n = read_head(p.path, head, SCRIPT_LINE, err, errlen);
		if (n < 0)
			break;
		head[n] = '\0';
		if (n < 2 || head[0] != '#' || head[1] != '!') {
			n = check_elf(p.path, head, (size_t)n, err, errlen);
			break;
		}
		if (depth == SCRIPT_DEPTH) {
			snprintf(err, errlen, "%s: too many interpreters", path);
			n = -ELOOP;
			break;
		}
		n = follow_script(&p, (char *)head, err, errlen);
	}
	if (n == -ENOMEM)
		snprintf(err, errlen, "out of memory");
	if (n < 0) {
		exec_plan_free(&p);
		return n;
	}
	*ret = p;
	return 0;
}

void exec_plan_free(struct exec_plan *p)
{
	free(p->path);
	free_vector(p->argv);
	p->path = NULL;
	p->argv = NULL;
}

/* Does this variable change the emulator itself? It cuts -E at commas, so a value with one has to stay. */
static int concerns_emulator(const char *var)
{
	if (strchr(var, ','))
		return 0;
	return !strncmp(var, "LD_", 3) || !strncmp(var, "GLIBC_TUNABLES=", 15);
}

int exec_command_make(const struct exec_plan *p, const char *qemu, const char *plugin_arg, char *const envp[],
		      struct exec_command *ret)
{
	size_t nargs = count(p->argv), nenv = count(envp), k = 0, e = 0, o = 0;
	struct exec_command c = {
		.argv = calloc(nargs + 2 * nenv + 8, sizeof(char *)),
		.envp = calloc(nenv + 1, sizeof(char *)),
		.owned = calloc(8, sizeof(char *)),
	};
	char *path = NULL;

	if (!c.argv || !c.envp || !c.owned)
		goto oom;
	c.argv[k++] = c.owned[o++] = strdup(qemu);
	c.argv[k++] = c.owned[o++] = strdup("-0");
	c.argv[k++] = c.owned[o++] = strdup(nargs ? p->argv[0] : "");
	c.argv[k++] = c.owned[o++] = strdup("-plugin");
	c.argv[k++] = c.owned[o++] = strdup(plugin_arg);
	c.owned[o++] = strdup("-E");
	for (size_t i = 0; i < nenv; i++) {
		if (concerns_emulator(envp[i])) {
			c.argv[k++] = c.owned[5];
			c.argv[k++] = envp[i];
		} else {
			c.envp[e++] = envp[i];
		}
	}
	/* A name that begins with a dash would be read as an option. */
	if (asprintf(&path, "%s%s", p->path[0] == '-' ? "./" : "", p->path) < 0)
		path = NULL;
	c.argv[k++] = c.owned[o++] = path;
	for (size_t i = 0; i < o; i++)
		if (!c.owned[i])
			goto oom;
	for (size_t i = 1; i < nargs; i++)
		c.argv[k++] = p->argv[i];
	*ret = c;
	return 0;
oom:
	for (size_t i = 0; c.owned && i < 8; i++)
		free(c.owned[i]);
	free(c.owned);
	free(c.argv);
	free(c.envp);
	return -ENOMEM;
}

void exec_command_free(struct exec_command *c)
{
	free_vector(c->owned);
	free(c->argv);
	free(c->envp);
}
