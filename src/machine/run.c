/* By kind: which machine's functions run, start and destroy. A new kind of machine has a line in each. No state, no locks. */
#include "machine/run.h"

#include "machine/host/host.h"
#include "machine/model/model.h"
#include "machine/null.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_kind(const struct machine *m, const char *kind)
{
	return !strcmp(m->ops->kind, kind);
}

int machine_run(struct machine *m, char *err, size_t errlen)
{
	if (is_kind(m, "model"))
		return model_run(m, err, errlen);
	if (is_kind(m, "host"))
		return host_run(m, err, errlen);
	if (is_kind(m, "null"))
		return null_run(m, err, errlen);
	snprintf(err, errlen, "no way to run a machine of kind %s", m->ops->kind);
	return -EINVAL;
}

struct cpu *machine_boot_cpu(struct machine *m)
{
	return is_kind(m, "model") ? model_boot_cpu(m) : m->cpus[0];
}

int machine_task_start(struct machine *m, struct task *t)
{
	return is_kind(m, "model") ? model_task_start(m, NULL, t) : m->ops->task_start(m->cpus[0], t);
}

void machine_destroy(struct machine *m)
{
	if (!m)
		return;
	if (is_kind(m, "model"))
		model_destroy(m);
	else if (is_kind(m, "host"))
		host_destroy(m);
	else
		null_destroy(m);
}
