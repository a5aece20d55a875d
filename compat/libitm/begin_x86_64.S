# compat/libitm/begin_x86_64.S -- _ITM_beginTransaction returns once when a transaction begins and
# again each time it begins anew. It notes what a called function must keep for its caller.
# Source:    System V ABI for x86-64 (registers that belong to the caller).
  .text

# uint32_t _ITM_beginTransaction(uint32_t properties, ...)
  .globl _ITM_beginTransaction
  .type _ITM_beginTransaction, @function
_ITM_beginTransaction:
  .cfi_startproc
  endbr64
  leaq 8(%rsp), %rax
  subq $72, %rsp                # struct Registers; the stack is aligned to 16 bytes
  .cfi_adjust_cfa_offset 72
  movq %rax, 0(%rsp)
  movq %rbx, 8(%rsp)
  movq %rbp, 16(%rsp)
  movq %r12, 24(%rsp)
  movq %r13, 32(%rsp)
  movq %r14, 40(%rsp)
  movq %r15, 48(%rsp)
  movq 72(%rsp), %rax
  movq %rax, 56(%rsp)
  movq %rsp, %rsi
  call tmh_itm_begin
  addq $72, %rsp
  .cfi_adjust_cfa_offset -72
  ret
  .cfi_endproc
  .size _ITM_beginTransaction, . - _ITM_beginTransaction

# [[noreturn]] void tmh_itm_go_back(const Registers *registers, uint32_t result)
  .globl tmh_itm_go_back
  .hidden tmh_itm_go_back
  .type tmh_itm_go_back, @function
tmh_itm_go_back:
  endbr64
  movl %esi, %eax
  movq 8(%rdi), %rbx
  movq 16(%rdi), %rbp
  movq 24(%rdi), %r12
  movq 32(%rdi), %r13
  movq 40(%rdi), %r14
  movq 48(%rdi), %r15
  movq 56(%rdi), %rdx           # first: below rsp *registers may be gone
  movq 0(%rdi), %rsp
  jmpq *%rdx
  .size tmh_itm_go_back, . - tmh_itm_go_back

# [[noreturn]] void tmh_itm_call_below(uintptr_t stack, void (*function)(void *), void *argument)
  .globl tmh_itm_call_below
  .hidden tmh_itm_call_below
  .type tmh_itm_call_below, @function
tmh_itm_call_below:
  .cfi_startproc
  .cfi_undefined rip            # nothing to go back to
  endbr64
  movq %rdi, %rsp
  andq $-16, %rsp
  movq %rdx, %rdi
  call *%rsi
  .cfi_endproc
  .size tmh_itm_call_below, . - tmh_itm_call_below

  .section .note.GNU-stack, "", @progbits
