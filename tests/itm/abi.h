// tests/itm/abi.h -- the functions of the libitm ABI that the programs call by name.
// Shape:     Intel's Linux TM ABI 1.1 as GCC 12 calls it. ITM_REGPARM is empty on x86-64.
// Contexts:  all are transaction_pure for the compiler: a program calls them in a transaction, and
//            the compiler leaves the call as it is.
// Source:    Intel's Linux TM ABI 1.1. Own declarations: GCC installs no header of it.
#pragma once

#include <complex.h>
#include <emmintrin.h>

#include <cstddef>
#include <cstdint>
#include <new>

#define ITM_PURE [[gnu::transaction_pure]]

extern "C" {
enum _ITM_howExecuting { outsideTransaction, inRetryableTransaction, inIrrevocableTransaction };
enum _ITM_transactionState { modeSerialIrrevocable };
using _ITM_transactionId_t = std::uint64_t;
inline constexpr _ITM_transactionId_t _ITM_noTransactionId = 1;
// The version of the ABI that GCC 12's library implements: 0.90.
inline constexpr int _ITM_VERSION_NO = 90;
using _ITM_action = void(void *);

ITM_PURE _ITM_howExecuting _ITM_inTransaction() noexcept;
ITM_PURE _ITM_transactionId_t _ITM_getTransactionId() noexcept;
ITM_PURE int _ITM_versionCompatible(int) noexcept;
ITM_PURE const char *_ITM_libraryVersion() noexcept;
ITM_PURE void _ITM_changeTransactionMode(_ITM_transactionState);
ITM_PURE void _ITM_addUserCommitAction(_ITM_action *, _ITM_transactionId_t resuming, void *);
ITM_PURE void _ITM_addUserUndoAction(_ITM_action *, void *);
ITM_PURE void _ITM_dropReferences(void *, std::size_t);
ITM_PURE void *_ITM_getTMCloneOrIrrevocable(void *);
ITM_PURE void *_ITM_getTMCloneSafe(void *);

ITM_PURE void *_ITM_malloc(std::size_t);
ITM_PURE void *_ITM_calloc(std::size_t, std::size_t);
ITM_PURE void _ITM_free(void *);
// The clones of new and delete, by their names in the object file.
ITM_PURE void *_ZGTtnwm(std::size_t);
ITM_PURE void *_ZGTtnam(std::size_t);
ITM_PURE void *_ZGTtnwmRKSt9nothrow_t(std::size_t, const std::nothrow_t *);
ITM_PURE void *_ZGTtnamRKSt9nothrow_t(std::size_t, const std::nothrow_t *);
ITM_PURE void _ZGTtdlPv(void *);
ITM_PURE void _ZGTtdaPv(void *);
ITM_PURE void _ZGTtdlPvRKSt9nothrow_t(void *, const std::nothrow_t *);
ITM_PURE void _ZGTtdaPvRKSt9nothrow_t(void *, const std::nothrow_t *);
ITM_PURE void _ZGTtdlPvm(void *, std::size_t);
ITM_PURE void _ZGTtdlPvmRKSt9nothrow_t(void *, std::size_t, const std::nothrow_t *);

// Loads (plain, after a read, after a write, for a write), stores (plain, after a read, after a
// write) and the log of a local, of one type.
#define ITM_BARRIERS(T, NAME)           \
  ITM_PURE T _ITM_R##NAME(const T *);   \
  ITM_PURE T _ITM_RaR##NAME(const T *); \
  ITM_PURE T _ITM_RaW##NAME(const T *); \
  ITM_PURE T _ITM_RfW##NAME(const T *); \
  ITM_PURE void _ITM_W##NAME(T *, T);   \
  ITM_PURE void _ITM_WaR##NAME(T *, T); \
  ITM_PURE void _ITM_WaW##NAME(T *, T); \
  ITM_PURE void _ITM_L##NAME(const T *);
ITM_BARRIERS(std::uint8_t, U1)
ITM_BARRIERS(std::uint16_t, U2)
ITM_BARRIERS(std::uint32_t, U4)
ITM_BARRIERS(std::uint64_t, U8)
ITM_BARRIERS(float, F)
ITM_BARRIERS(double, D)
ITM_BARRIERS(long double, E)
ITM_BARRIERS(__m64, M64)
ITM_BARRIERS(__m128, M128)
ITM_BARRIERS(_Complex float, CF)
ITM_BARRIERS(_Complex double, CD)
ITM_BARRIERS(_Complex long double, CE)
ITM_PURE void _ITM_LB(const void *, std::size_t);
// Those of __m256 need code for AVX: tests/itm/programs/vectors.cpp declares them.

// memcpy and memmove by how source and destination are read and written: n without the
// transaction, t with it, taR after a read, taW after a write.
#define ITM_BLOCK(NAME) ITM_PURE void _ITM_##NAME(void *, const void *, std::size_t);
#define ITM_BLOCKS(KIND)    \
  ITM_BLOCK(KIND##RnWt)     \
  ITM_BLOCK(KIND##RnWtaR)   \
  ITM_BLOCK(KIND##RnWtaW)   \
  ITM_BLOCK(KIND##RtWn)     \
  ITM_BLOCK(KIND##RtWt)     \
  ITM_BLOCK(KIND##RtWtaR)   \
  ITM_BLOCK(KIND##RtWtaW)   \
  ITM_BLOCK(KIND##RtaRWn)   \
  ITM_BLOCK(KIND##RtaRWt)   \
  ITM_BLOCK(KIND##RtaRWtaR) \
  ITM_BLOCK(KIND##RtaRWtaW) \
  ITM_BLOCK(KIND##RtaWWn)   \
  ITM_BLOCK(KIND##RtaWWt)   \
  ITM_BLOCK(KIND##RtaWWtaR) \
  ITM_BLOCK(KIND##RtaWWtaW)
ITM_BLOCKS(memcpy)
ITM_BLOCKS(memmove)
ITM_PURE void _ITM_memsetW(void *, int, std::size_t);
ITM_PURE void _ITM_memsetWaR(void *, int, std::size_t);
ITM_PURE void _ITM_memsetWaW(void *, int, std::size_t);
}
