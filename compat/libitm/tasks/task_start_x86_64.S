# compat/libitm/tasks/task_start_x86_64.S -- a process that begins on another stack.
# long tmh_itm_clone(unsigned long flags, void *stack, int *pid, void *thread_pointer,
#                    void (*begin)(long), long argument)
# In the parent: the child's pid, or minus an error's number. In the child: begin(argument) on that
# stack, which is the outermost frame for unwinders.
        .text
        .globl  tmh_itm_clone
        .hidden tmh_itm_clone
        .type   tmh_itm_clone, @function
tmh_itm_clone:
        .cfi_startproc
        andq    $-16, %rsi
        subq    $16, %rsi
        movq    %r8, (%rsi)
        movq    %rcx, %r8
        xorl    %r10d, %r10d
        movl    $56, %eax               # clone; it keeps r9
        syscall
        testq   %rax, %rax
        jz      1f
        ret
1:      .cfi_undefined rip
        xorl    %ebp, %ebp
        movq    (%rsp), %rax
        addq    $16, %rsp
        movq    %r9, %rdi
        call    *%rax
        hlt
        .cfi_endproc
        .size   tmh_itm_clone, .-tmh_itm_clone
        .section .note.GNU-stack,"",@progbits
