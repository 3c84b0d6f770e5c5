/*
 * What the recorder's tests record: one program, a mode each. No mode prints, except what its name says; every mode
 * ends with 0 unless its name says otherwise. Built without sanitizers and without optimisation that would move
 * references.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define MARK_BEGIN 0x1234567
#define MARK_END 0x7654321
#define SYS_MARK 121 /* getpgid of a process that can't be */

extern char **environ;
static char *self;

/* A marker: the recorder shows the call with its argument. */
static void mark(long which)
{
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "a"(SYS_MARK), "D"(which) : "rcx", "r11", "memory");
}

/* 1000 rounds of one 8-byte load, one 4-byte store and one 1-byte load; six instructions a round. */
static int mode_region(void)
{
	static uint64_t buf[1000];
	uint64_t *p = buf, n = 1000, ret;

	memset(buf, 1, sizeof(buf));
	__asm__ volatile("mov %[begin], %%rdi\n"
			 "mov %[nr], %%rax\n"
			 "syscall\n"
			 "1:\n"
			 "mov (%[p]), %%rdx\n"
			 "movl %%edx, 4(%[p])\n"
			 "movb 7(%[p]), %%dl\n"
			 "add $8, %[p]\n"
			 "dec %[n]\n"
			 "jnz 1b\n"
			 "mov %[end], %%rdi\n"
			 "mov %[nr], %%rax\n"
			 "syscall\n"
			 : "=&a"(ret), [p] "+r"(p), [n] "+r"(n)
			 : [begin] "i"(MARK_BEGIN), [end] "i"(MARK_END), [nr] "i"(SYS_MARK)
			 : "rcx", "r11", "rdx", "rdi", "memory", "cc");
	return 0;
}

/* Two loads with 10,000 instructions between them: more than one word can say. */
static int mode_long_gap(void)
{
	static uint64_t buf[2];
	uint64_t *p = buf, n = 5000, ret;

	__asm__ volatile("mov %[begin], %%rdi\n"
			 "mov %[nr], %%rax\n"
			 "syscall\n"
			 "mov (%[p]), %%rdx\n"
			 "1:\n"
			 "dec %[n]\n"
			 "jnz 1b\n"
			 "mov 8(%[p]), %%rdx\n"
			 "mov %[end], %%rdi\n"
			 "mov %[nr], %%rax\n"
			 "syscall\n"
			 : "=&a"(ret), [n] "+r"(n)
			 : [p] "r"(p), [begin] "i"(MARK_BEGIN), [end] "i"(MARK_END), [nr] "i"(SYS_MARK)
			 : "rcx", "r11", "rdx", "rdi", "memory", "cc");
	return 0;
}

static void *idle_body(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/*
 * Between the marks: one atomic add, a repeated store of 64 bytes, a 16-byte load. A second thread is there because
 * only then does the emulator do the add as one operation.
 */
static int mode_kinds(void)
{
	static uint64_t buf[16] __attribute__((aligned(64)));
	uint64_t *p = buf, *q = buf, n = 8;
	pthread_t t;

	if (pthread_create(&t, NULL, idle_body, NULL))
		return 1;
	mark(MARK_BEGIN);
	__asm__ volatile("lock addq $1, (%[q])\n"
			 "rep stosq\n"
			 "movups (%[q]), %%xmm0\n"
			 : "+&D"(p), "+&c"(n)
			 : [q] "r"(q), "a"(0)
			 : "xmm0", "memory", "cc");
	mark(MARK_END);
	return 0;
}

static void *thread_body(void *arg)
{
	volatile uint64_t *a = arg;

	for (int i = 0; i < 10000; i++)
		a[i & 63]++;
	return NULL;
}

static int mode_threads(void)
{
	pthread_t t[4];
	static uint64_t a[4][64];

	for (int i = 0; i < 4; i++)
		if (pthread_create(&t[i], NULL, thread_body, a[i]))
			return 1;
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	return 0;
}

static void *spin_body(void *arg)
{
	volatile uint64_t *a = arg;

	for (;;)
		a[0]++;
	return NULL;
}

static int mode_exit_with_threads(void)
{
	pthread_t t;
	static uint64_t a[2];

	for (int i = 0; i < 2; i++)
		if (pthread_create(&t, NULL, spin_body, &a[i]))
			return 1;
	usleep(20000);
	return 7;
}

/* A child with two children. */
static int mode_fork_tree(void)
{
	static volatile char page[3][4096];

	for (int i = 0; i < 3; i++) {
		pid_t p = i == 0 ? fork() : 0;

		if (i == 0 && p > 0) {
			int st;

			return waitpid(p, &st, 0) == p && WIFEXITED(st) && WEXITSTATUS(st) == 3 ? 0 : 1;
		}
		page[i][0]++;
		if (i == 0)
			continue;
		p = fork();
		if (p == 0) {
			page[i][1]++;
			_exit(0);
		}
	}
	while (wait(NULL) > 0 || errno == EINTR)
		;
	_exit(3);
}

static int mode_fork_100(void)
{
	volatile char *p = malloc(1 << 16);

	for (int i = 0; i < 100; i++) {
		pid_t c = fork();

		if (c < 0)
			return 1;
		if (c == 0) {
			for (int k = 0; k < 1 << 16; k += 512)
				p[k]++;
			_exit(0);
		}
	}
	for (int i = 0; i < 100; i++)
		wait(NULL);
	return 0;
}

/* a -> b -> c, each with its own argv[0]; a missing file in between. */
static int mode_exec_chain(int left)
{
	char arg[16], *argv[] = { (char[]){ "chained" }, (char[]){ "exec_chain" }, arg, NULL };

	if (left == 0)
		return 5;
	snprintf(arg, sizeof(arg), "%d", left - 1);
	if (execv("/nowhere/at/all", argv) != -1 || errno != ENOENT)
		return 1;
	execv(self, argv);
	return 1;
}

static int mode_rename(void)
{
	char *argv[] = { (char[]){ "wanted-name" }, (char[]){ "names" }, (char[]){ "a b,c" }, NULL };

	execv(self, argv);
	return 1;
}

static int mode_exec_beside_threads(void)
{
	char *argv[] = { (char[]){ "beside" }, (char[]){ "status_9" }, NULL };
	static uint64_t a[2];
	pthread_t t;

	for (int i = 0; i < 2; i++)
		if (pthread_create(&t, NULL, spin_body, &a[i]))
			return 1;
	usleep(1000);
	execv(self, argv);
	return 1;
}

static int mode_spawn(void)
{
	char *argv[] = { (char[]){ "spawned" }, (char[]){ "status_9" }, NULL };
	pid_t p;
	int st;

	if (posix_spawn(&p, self, NULL, NULL, argv, environ))
		return 1;
	return waitpid(p, &st, 0) == p && WIFEXITED(st) && WEXITSTATUS(st) == 9 ? 0 : 1;
}

static int mode_segv(void)
{
	volatile char *p = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p[5];
}

static int mode_maps(void)
{
	char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q;
	char *top = sbrk(0);
	int fd = open(self, O_RDONLY);

	memset(p, 1, 1 << 20);
	q = mremap(p, 1 << 20, 2 << 20, MREMAP_MAYMOVE);
	if (q == MAP_FAILED)
		return 1;
	memset(q, 2, 2 << 20);
	if (munmap(q + (1 << 20), 1 << 20))
		return 1;
	if (sbrk(1 << 16) != top)
		return 1;
	memset(top, 3, 1 << 16);
	brk(top);
	p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	return p[1] == 'E' ? 0 : 1;
}

/* The kernel writes 1 MiB into memory that nobody has touched; and a vector read and write. */
static int mode_buffers(void)
{
	char *p = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct { void *base; size_t len; } v[2] = { { p + (1 << 20), 100 }, { p + (1 << 20) + 8192, 5000 } };
	int fd = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY), pipes[2];

	if (read(fd, p, 1 << 20) != 1 << 20)
		return 1;
	if (syscall(SYS_readv, fd, v, 2) != 5100 || syscall(SYS_writev, null, v, 2) != 5100)
		return 1;
	/* Fewer bytes than there is room for. */
	if (pipe(pipes) || write(pipes[1], p, 150) != 150 || syscall(SYS_readv, pipes[0], v, 2) != 150)
		return 1;
	return 0;
}

/* Everything that programs do to descriptors and sessions, then work on in the background. */
static int mode_daemon(void)
{
	volatile char *p = malloc(4096);

	if (fork() > 0)
		_exit(0);
	setsid();
	if (fork() > 0)
		_exit(0);
	for (int fd = 0; fd < 256; fd++)
		close(fd);
	syscall(436, 0, ~0U, 0); /* close_range */
	usleep(200000);
	for (int i = 0; i < 4096; i++)
		p[i] = 1;
	mark(MARK_BEGIN);
	return 0;
}

static void *late_body(void *arg)
{
	return arg;
}

static int mode_fork_beside_threads(void)
{
	static uint64_t a;
	pthread_t t;
	pid_t p;

	if (pthread_create(&t, NULL, spin_body, &a))
		return 1;
	p = fork();
	if (p == 0) {
		close(STDERR_FILENO);
		close(STDOUT_FILENO);
		pthread_create(&t, NULL, late_body, NULL);
		pthread_join(t, NULL);
		_exit(0);
	}
	waitpid(p, NULL, 0);
	return 0;
}

static volatile sig_atomic_t caught;

static void on_alarm(int sig)
{
	(void)sig;
	caught++;
}

/*
 * Handlers, each with the frame that the emulator writes; from a timer they interrupt code whose memory its helpers
 * access, and the emulator's own accesses then look as if they came from there.
 */
static int mode_handlers(void)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	struct itimerval every = { { 0, 500 }, { 0, 500 } }, never = { { 0, 0 }, { 0, 0 } };
	volatile long double x = 1;

	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGALRM, &sa, NULL);
	for (int i = 0; i < 100; i++)
		kill(getpid(), SIGUSR1);
	setitimer(ITIMER_REAL, &every, NULL);
	while (caught < 300)
		x = x * 3 / 2 - x / 2;
	setitimer(ITIMER_REAL, &never, NULL);
	return 0;
}

/* The variable is the program's, but not the emulator's, whose own environment this file shows. */
static bool in_emulator(const char *name)
{
	static char env[1 << 16];
	int fd = open("/proc/self/environ", O_RDONLY);
	ssize_t n = read(fd, env, sizeof(env));

	close(fd);
	return n <= 0 || memmem(env, (size_t)n, name, strlen(name));
}

static int mode_names(int argc, char **argv)
{
	if (argc != 3 || strcmp(argv[0], "wanted-name") != 0 || strcmp(argv[2], "a b,c") != 0)
		return 1;
	return getenv("RECORD_TEST") && getenv("LD_RECORD_TEST") && !in_emulator("LD_RECORD_TEST") ? 0 : 1;
}

static _Noreturn int mode_forever(void)
{
	static volatile uint64_t x;

	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	if (fork() == 0)
		for (;;)
			pause();
	for (;;)
		x++;
}

static int mode_interrupted(void)
{
	signal(SIGINT, on_alarm);
	mark(MARK_BEGIN);
	while (!caught)
		usleep(1000);
	return 4;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} modes[] = {
		{ "region", mode_region }, { "long_gap", mode_long_gap }, { "kinds", mode_kinds }, { "threads", mode_threads },
		{ "exit_with_threads", mode_exit_with_threads }, { "fork_tree", mode_fork_tree },
		{ "fork_100", mode_fork_100 }, { "spawn", mode_spawn }, { "segv", mode_segv }, { "maps", mode_maps },
		{ "buffers", mode_buffers }, { "daemon", mode_daemon },
		{ "fork_beside_threads", mode_fork_beside_threads }, { "handlers", mode_handlers },
		{ "forever", mode_forever }, { "interrupted", mode_interrupted },
		{ "rename", mode_rename },
		{ "exec_beside_threads", mode_exec_beside_threads },
	};
	static char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	self = path;
	if (n <= 0 || argc < 2)
		return 2;
	if (!strcmp(argv[1], "exec_chain"))
		return mode_exec_chain(argc > 2 ? atoi(argv[2]) : 2);
	if (!strcmp(argv[1], "names"))
		return mode_names(argc, argv);
	if (!strcmp(argv[1], "status_9"))
		return 9;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[1], modes[i].name))
			return modes[i].run();
	return 2;
}
