/*
 * The processes of a recording. This process is their subreaper while it records, so every descendant is either its
 * child or the descendant of a living one: when no child is left, nothing of the recording is left. The ends of
 * processes that others wait for are seen through a pidfd each.
 */
#define _GNU_SOURCE
#include "record/record_int.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void procs_init(struct procs *ps, pid_t first)
{
	*ps = (struct procs){ .first = first };
}

void procs_done(struct procs *ps)
{
	for (size_t i = 0; i < ps->nr; i++)
		if (ps->p[i].pidfd >= 0)
			close(ps->p[i].pidfd);
	free(ps->p);
	ps->p = NULL;
	ps->nr = ps->cap = 0;
}

struct proc *procs_find(struct procs *ps, pid_t pid)
{
	for (size_t i = 0; i < ps->nr; i++)
		if (ps->p[i].pid == pid)
			return &ps->p[i];
	return NULL;
}

struct proc *procs_add(struct procs *ps, pid_t pid)
{
	struct proc *p = procs_find(ps, pid);

	/* A number that the kernel gave out again. */
	if (p && p->gone && !p->rings)
		procs_drop(ps, p);
	else if (p)
		return p;
	if (ps->nr == ps->cap) {
		size_t cap = ps->cap ? ps->cap * 2 : 64;

		p = realloc(ps->p, cap * sizeof(*p));
		if (!p)
			return NULL;
		ps->p = p;
		ps->cap = cap;
	}
	p = &ps->p[ps->nr++];
	*p = (struct proc){ .pid = pid, .pidfd = (int)syscall(SYS_pidfd_open, pid, 0) };
	if (p->pidfd < 0 && errno == ESRCH)
		p->gone = true;
	return p;
}

void procs_drop(struct procs *ps, struct proc *p)
{
	if (p->pidfd >= 0)
		close(p->pidfd);
	*p = ps->p[--ps->nr];
}

static void set_end(struct proc *p, int status)
{
	p->gone = p->known = true;
	if (WIFSIGNALED(status)) {
		p->how = EXIT_SIGNAL;
		p->status = (uint64_t)WTERMSIG(status);
	} else {
		p->how = EXIT_PROCESS;
		p->status = (uint64_t)WEXITSTATUS(status);
	}
}

/* Fields of /proc/PID/stat from the third on, which is behind the name's closing parenthesis. */
static bool read_stat(pid_t pid, char *state, int *ppid, int *pgrp, int *exit_code)
{
	char path[64], line[2048], *s;
	FILE *f;
	bool ok = false;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (fgets(line, sizeof(line), f) && (s = strrchr(line, ')')) && sscanf(s + 1, " %c %d %d", state, ppid, pgrp) == 3) {
		ok = true;
		s = strrchr(line, ' ');
		*exit_code = s ? atoi(s + 1) : 0;
	}
	fclose(f);
	return ok;
}

static bool alive(const struct proc *p)
{
	struct pollfd pfd = { .fd = p->pidfd, .events = POLLIN };

	if (p->pidfd >= 0)
		return poll(&pfd, 1, 0) <= 0;
	return kill(p->pid, 0) == 0 || errno == EPERM;
}

/* Ended, and maybe waited for by its parent already: its status is there as long as it is not. */
static void ask_end(struct proc *p)
{
	int ppid, pgrp, code;
	char state;

	p->gone = true;
	if (!p->known && read_stat(p->pid, &state, &ppid, &pgrp, &code) && (state == 'Z' || state == 'X'))
		set_end(p, code);
}

void procs_poll(struct procs *ps)
{
	struct proc *p;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == ps->first) {
			ps->first_ended = true;
			ps->first_status = status;
		}
		p = procs_find(ps, pid);
		if (p)
			set_end(p, status);
	}
	ps->no_children = pid < 0 && errno == ECHILD;
	for (size_t i = 0; i < ps->nr; i++) {
		p = &ps->p[i];
		if (p->gone || alive(p))
			continue;
		if (waitpid(p->pid, &status, WNOHANG) != p->pid) {
			ask_end(p);
			continue;
		}
		set_end(p, status);
		if (p->pid == ps->first) {
			ps->first_ended = true;
			ps->first_status = status;
		}
	}
}

struct relation {
	pid_t pid, parent, pgrp;
	bool ours;
};

static size_t read_relations(struct relation **ret)
{
	struct relation *v = NULL;
	size_t n = 0, cap = 0;
	struct dirent *e;
	DIR *d = opendir("/proc");

	while (d && (e = readdir(d))) {
		struct relation x = { .pid = atoi(e->d_name) };
		char state;
		int code;

		if (x.pid <= 0 || !read_stat(x.pid, &state, &x.parent, &x.pgrp, &code) || state == 'Z')
			continue;
		if (n == cap) {
			struct relation *w = realloc(v, (cap = cap ? cap * 2 : 256) * sizeof(*v));

			if (!w)
				break;
			v = w;
		}
		v[n++] = x;
	}
	if (d)
		closedir(d);
	*ret = v;
	return n;
}

void procs_signal(const struct procs *ps, int sig, bool same_group)
{
	struct relation *v;
	size_t n = read_relations(&v);
	pid_t self = getpid(), group = getpgid(ps->first);
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; i < n; i++) {
			for (size_t j = 0; j < n && !v[i].ours; j++) {
				if (v[i].parent == self || (v[j].ours && v[i].parent == v[j].pid))
					v[i].ours = more = true;
			}
		}
	}
	for (size_t i = 0; i < n; i++)
		if (v[i].ours && (!same_group || v[i].pgrp == group))
			kill(v[i].pid, sig);
	free(v);
}
