/* Settings of the kernel underneath: where they are, reading, writing and putting back. */
#define _GNU_SOURCE
#include "script/kernel_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "script/kernel_int.h"

/* The file that a setting is. 0, -ENOENT: the name is not one of Linux's. */
static int setting_path(const char *name, char *path, size_t len)
{
	static const char sysfs[] = "transparent_hugepage.";
	size_t n = 0;

	if (!strcmp(name, "bdi.read_ahead_kb"))
		return kernel_disk_read_ahead(path, len);
	if (!strncmp(name, sysfs, strlen(sysfs)))
		n = (size_t)snprintf(path, len, "/sys/kernel/mm/%s", name);
	else if (!strncmp(name, "vm.", 3) || !strncmp(name, "kernel.", 7))
		n = (size_t)snprintf(path, len, "/proc/sys/%s", name);
	if (!n || n >= len || strstr(name, "..") || strchr(name, '/'))
		return -ENOENT;
	for (char *p = path; *p; p++)
		if (*p == '.')
			*p = '/';
	return 0;
}

int script_kernel_setting(const char *name, char *buf, size_t len)
{
	char path[160];

	return setting_path(name, path, sizeof(path)) || kproc_setting(path, buf, len) ? -ENOENT : 0;
}

bool script_kernel_owned(void)
{
	FILE *f = fopen("/proc/cmdline", "re");
	char line[2048], *save, *word;
	bool owned = false;

	if (!f)
		return false;
	if (!fgets(line, sizeof(line), f))
		*line = '\0';
	fclose(f);
	for (word = strtok_r(line, " \n", &save); word && !owned; word = strtok_r(NULL, " \n", &save))
		owned = !strcmp(word, SCRIPT_KERNEL_GUEST);
	return owned;
}

unsigned script_kernel_nodes(void)
{
	char path[64];
	unsigned n = 0;

	do
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/meminfo", n);
	while (!access(path, R_OK) && ++n < 64);
	return n ? n : 1;
}

/* ---- writing ---- */

static int write_value(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, value, strlen(value)) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

int kernel_settings_set(struct kernel_settings *s, const char *name, const char *value, bool may_write, char *err, size_t errlen)
{
	char path[160], now[64];
	int rc;

	if (setting_path(name, path, sizeof(path)) || kproc_setting(path, now, sizeof(now)))
		return kernel_unsupported(err, errlen, "the kernel underneath has no setting %s", name);
	if (!strcmp(now, value))
		return 0;
	if (!may_write)
		return kernel_unsupported(err, errlen, "%s is %s in the kernel underneath, and settings there are only read", name, now);
	if (s->nr == KERNEL_SETTINGS)
		return kernel_unsupported(err, errlen, "more than %d settings in one run", KERNEL_SETTINGS);
	memcpy(s->v[s->nr].path, path, sizeof(path));
	memcpy(s->v[s->nr].before, now, sizeof(now));
	rc = write_value(path, value);
	if (rc)
		return kernel_unsupported(err, errlen, "the kernel underneath does not take %s for %s: %s", value, name, strerror(-rc));
	s->nr++;
	if (kproc_setting(path, now, sizeof(now)) || strcmp(now, value))
		return kernel_unsupported(err, errlen, "%s was set to %s in the kernel underneath, which made it %s", name, value, now);
	return 0;
}

void kernel_settings_restore(struct kernel_settings *s)
{
	while (s->nr) {
		s->nr--;
		(void)write_value(s->v[s->nr].path, s->v[s->nr].before);
	}
}
