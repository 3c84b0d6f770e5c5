/* A static program without libc that ends before it has touched memory, for the recorder's tests. */
void _start(void);

/* naked: whatever the optimisation, no stack frame. */
__attribute__((naked)) void _start(void)
{
	__asm__ volatile("mov $3, %edi\n"
			 "mov $231, %eax\n"
			 "syscall\n");
}
