/* --inject RULE, the same in every command that runs something on an engine. */
#ifndef QUIRE_CLI_INJECT_ARGS_H
#define QUIRE_CLI_INJECT_ARGS_H

#include "cli/cli.h"
#include "machine/inject.h"

#define INJECT_ARGS_OPTION(list)                                                                                               \
	{ "inject", 0, OPT_LIST, (list), 0, 0, "RULE",                                                                         \
	  "make calls inside the engine fail: KIND[:NAME=VALUE,...] ('quire check inject --list'); may be repeated" }

/* -1 to go on, or an exit code after a message. */
int inject_args_get(const char *command, const struct opt_list *list, struct inject_rules *ret);

#endif
