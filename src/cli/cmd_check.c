/* quire check: the engine held against itself. Finds the subcommand by name and runs it. */
#include "cli/check.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *name, *help;
	int (*run)(int argc, char **argv);
} checks[] = {
	{ "inject", "fail each call of small scripts that can fail, and look at what the engine makes of it", check_inject },
	{ "schedules", "run small concurrent programs in many orders, and look at frames, contents, TLBs", check_schedules },
};

static const char *check_name(const void *arg, size_t i)
{
	(void)arg;
	return checks[i].name;
}

static void print_help(void)
{
	puts("usage: quire check WHAT [OPTIONS]\n\nHolds the engine against itself.\n");
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++)
		printf("  %-10s %s\n", checks[i].name, checks[i].help);
	puts("\n'quire check WHAT --help' says more.");
}

static int run(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL, *near;

	if (!name)
		return usage_error("check", "what? 'quire check --help' lists what can be checked");
	if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
		print_help();
		return EXIT_DONE;
	}
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++)
		if (!strcmp(name, checks[i].name))
			return checks[i].run(argc - 1, argv + 1);
	near = nearest(name, ARRAY_SIZE(checks), check_name, NULL);
	return usage_error("check", "no such check: %s%s%s%s", name, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

const struct command cmd_check = { .name = "check", .help = "hold the engine against itself: failures and interleavings on purpose", .run = run };
