// bench/support/line_tinystm.h -- transactions and words of TinySTM, through its own interface
// (stm.h of 1.0.4, the first with these calls).
// Set-up:    a query is told to be read-only: it keeps no read set then, and begins again where an
//            update transaction would extend its snapshot.
// Invariant: a word's loads and stores are calls, inside a transaction, of a thread that has a
//            session. One session per thread at a time.
// Aborts:    siglongjmp back into run(). So bodies and what they call hold nothing that needs a
//            destructor, and attempts share no local variable. They are counted here: TinySTM
//            counts them only when configured to.
#pragma once

#include <stm.h>

#include <bit>
#include <csetjmp>
#include <cstdint>

namespace tmh::bench {

template <class T>
class TinyField {
  static_assert(sizeof(T) == sizeof(stm_word_t));

 public:
  TinyField(const TinyField &) = delete;
  TinyField &operator=(const TinyField &) = delete;
  explicit(false) operator T() const {
    return std::bit_cast<T>(stm_load(const_cast<stm_word_t *>(&word_)));
  }
  TinyField &operator=(T value) {
    stm_store(&word_, std::bit_cast<stm_word_t>(value));
    return *this;
  }
  TinyField &operator+=(T value) { return *this = *this + value; }
  TinyField &operator-=(T value) { return *this = *this - value; }

 private:
  stm_word_t word_;
};

// Base of a thread's session.
template <class Session>
class TinySession {
 public:
  TinySession() { stm_init_thread(); }
  TinySession(const TinySession &) = delete;
  TinySession &operator=(const TinySession &) = delete;
  ~TinySession() { stm_exit_thread(); }
  template <class Body>
  auto update(const Body &body) {
    return run(body, stm_tx_attr_t{});
  }
  template <class Body>
  auto query(const Body &body) {
    stm_tx_attr_t read_only{};
    read_only.read_only = 1;
    return run(body, read_only);
  }
  [[nodiscard]] std::uint64_t aborts() const { return aborts_; }

 private:
  // Not inlined: between sigsetjmp and the commit nothing of a caller changes that an abort would
  // not put back.
  template <class Body>
  [[gnu::noinline]] auto run(const Body &body, stm_tx_attr_t attributes) {
    if (sigsetjmp(*stm_start(attributes), 0) != 0) ++aborts_;
    const auto result = body();
    stm_commit();
    return result;
  }
  std::uint64_t aborts_ = 0;
};

}  // namespace tmh::bench
