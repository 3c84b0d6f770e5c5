/* The terminal and signals: progress that is written over, bold headings, Ctrl-C. */
#include "cli/cli.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile bool interrupted;

static void on_signal(int sig)
{
	if (interrupted && sig == SIGINT)
		_exit(128 + SIGINT);
	interrupted = true;
}

void signals_catch(void)
{
	struct sigaction sa = { .sa_handler = on_signal }, old;

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	/* A terminal that goes away ends things in order too, unless nohup said that it is to be ignored. */
	if (!sigaction(SIGHUP, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &sa, NULL);
}

bool want_bold(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(fd) && !(no && *no) && !(term && !strcmp(term, "dumb"));
}

void progress_init(struct progress *p)
{
	*p = (struct progress){ .on = isatty(STDERR_FILENO) };
}

void progress_line(struct progress *p, const char *fmt, ...)
{
	char line[100];
	va_list ap;

	if (!p->on)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	fprintf(stderr, "\r\033[K%.79s", line);
	p->shown = true;
}

void progress_clear(struct progress *p)
{
	if (p->shown)
		fputs("\r\033[K", stderr);
	p->shown = false;
}

void format_duration(char buf[24], uint64_t ns)
{
	unsigned s = (unsigned)(ns / 1000000000ULL);

	if (s < 3600)
		snprintf(buf, 24, "%u:%02u", s / 60, s % 60);
	else
		snprintf(buf, 24, "%u:%02u:%02u", s / 3600, s / 60 % 60, s % 60);
}
