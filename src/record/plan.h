/*
 * What executing a file means under the recorder: which x86-64 program the emulator has to load, with which arguments.
 * Used for the first program (record.c) and, inside the plugin, for each execve.
 */
#ifndef QUIRE_RECORD_PLAN_H
#define QUIRE_RECORD_PLAN_H

#include <stddef.h>

struct exec_plan {
	char *path;  /* an ELF file for x86-64 */
	char **argv; /* as the program shall see them; of its interpreter where the file was a script */
};

/*
 * Scripts are followed to their interpreter like the kernel does. self: what /proc/self/exe stands for (NULL:
 * nothing). 0, or negative errno with one line in err: -ENOENT, -EACCES, -ENOEXEC (no program for this processor),
 * -ELOOP, -ENOMEM.
 */
int exec_plan_make(const char *path, char *const argv[], const char *self, struct exec_plan *ret, char *err, size_t errlen);
void exec_plan_free(struct exec_plan *p);

/*
 * The command that runs the plan: qemu -0 argv[0] -plugin ARG [-E NAME=VALUE]... path argv[1]...; and its
 * environment: envp without what would change the emulator itself (LD_PRELOAD and its like), which goes through -E.
 * Freed with exec_command_free.
 */
struct exec_command {
	char **argv, **envp;
	char **owned; /* strings made here */
};

int exec_command_make(const struct exec_plan *p, const char *qemu, const char *plugin_arg, char *const envp[],
		      struct exec_command *ret);
void exec_command_free(struct exec_command *c);

#endif
