/* quire check: one function a subcommand, each in a file of its own. argv[0] is the subcommand's name. */
#ifndef QUIRE_CLI_CHECK_H
#define QUIRE_CLI_CHECK_H

int check_inject(int argc, char **argv);
int check_schedules(int argc, char **argv);

#endif
