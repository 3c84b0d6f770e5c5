/* quire: the command. Finds the command by name and runs it. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const struct command *const commands[] = {
	&cmd_run, &cmd_script, &cmd_record, &cmd_trace, &cmd_workload, &cmd_compare, &cmd_experiment, &cmd_fidelity, &cmd_knobs, &cmd_machine, &cmd_bench, &cmd_check, &cmd_cases, &cmd_bench_load,
};

static const char *command_name(const void *arg, size_t i)
{
	(void)arg;
	return commands[i]->hidden ? "" : commands[i]->name;
}

static void print_help(void)
{
	puts("usage: quire COMMAND [OPTIONS] ...\n\n"
	     "What would Linux's memory management do to a program, on a machine that is described in a file?\n\n"
	     "commands:");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!commands[i]->hidden)
			printf("  %-11s %s\n", commands[i]->name, commands[i]->help);
	puts("\n'quire COMMAND --help' says more. For example:\n"
	     "  quire run --vary transparent_hugepage.enabled=never,always -- sort big.txt");
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL, *near;

	if (!name) {
		print_help();
		return EXIT_USAGE;
	}
	if (!strcmp(name, "help") && argc > 2) { /* help COMMAND: COMMAND --help */
		static char option[] = "--help";

		memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof(*argv));
		argv[argc - 1] = option;
		name = argv[1];
	}
	if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
		print_help();
		return EXIT_DONE;
	}
	if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
		puts("quire " QUIRE_VERSION);
		return EXIT_DONE;
	}
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(name, commands[i]->name)) {
			int rc = commands[i]->run(argc - 1, argv + 1);

			if (rc == EXIT_DONE &&
			    (fflush(stdout) || ferror(stdout))) /* an earlier flush may have failed */
				return failure("standard output cannot be written");
			return rc;
		}
	near = nearest(name, ARRAY_SIZE(commands), command_name, NULL);
	return usage_error(NULL, "no such %s: %s%s%s%s", name[0] == '-' ? "option" : "command", name,
			   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}
