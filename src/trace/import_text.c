/* Lines of the plain format: 'R|W address size'. */
#include "trace/import_int.h"

#include <errno.h>
#include <string.h>

int import_text_line(const char *line, struct import_item *ret, const char **ret_allowed)
{
	const char *p = line + strspn(line, " \t");

	*ret = (struct import_item){ 0 };
	if (!*p || *p == '#')
		return 0;
	if (*p == 'R' || *p == 'r')
		ret->kind = ITEM_LOAD;
	else if (*p == 'W' || *p == 'w')
		ret->kind = ITEM_STORE;
	if (ret->kind && (p[1] == ' ' || p[1] == '\t')) {
		p++;
		p = import_hex(p + strspn(p, " \t"), &ret->addr);
		if (p && (*p == ' ' || *p == '\t'))
			p = import_dec(p + strspn(p, " \t"), &ret->size);
		else
			p = NULL;
		if (p && !p[strspn(p, " \t")])
			return import_check(ret, ret_allowed);
	}
	*ret_allowed = "a line is 'R ADDRESS SIZE' or 'W ADDRESS SIZE', address in hexadecimal, size in decimal";
	return -EINVAL;
}
