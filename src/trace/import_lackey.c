/* Lines of valgrind's lackey tool with --trace-mem=yes. Lines of valgrind itself (==PID==, --PID--) are skipped. */
#include "trace/import_int.h"

#include <errno.h>

int import_lackey_line(const char *line, struct import_item *ret, const char **ret_allowed)
{
	const char *p = line;

	*ret = (struct import_item){ 0 };
	if (!p[0] || (p[0] == '=' && p[1] == '=') || (p[0] == '-' && p[1] == '-'))
		return 0;
	if (p[0] == 'I' && p[1] == ' ' && p[2] == ' ') {
		ret->kind = ITEM_INSN;
	} else if (p[0] == ' ' && p[1] && p[2] == ' ') {
		switch (p[1]) {
		case 'L':
			ret->kind = ITEM_LOAD;
			break;
		case 'S':
			ret->kind = ITEM_STORE;
			break;
		case 'M':
			ret->kind = ITEM_MODIFY;
			break;
		default:
			break;
		}
	}
	if (ret->kind) {
		p = import_hex(p + 3, &ret->addr);
		if (p && *p == ',')
			p = import_dec(p + 1, &ret->size);
		else
			p = NULL;
		if (p && !*p)
			return import_check(ret, ret_allowed);
	}
	*ret_allowed = "a line of lackey is 'I  ADDRESS,SIZE' or ' L', ' S' or ' M ADDRESS,SIZE'";
	return -EINVAL;
}
