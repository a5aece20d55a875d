// compat/libxac/xac.cpp -- the thesis's C interface (xac.h) over the C++ one.
// Shape:     one process-wide session: a domain, its raw segments by name, and the heap segment
//            once a program needs it.
// Invariant: no exception leaves an extern "C" function; each becomes a negative Errc, kept per
//            thread for xLastError(), with its text.
// Sharing:   g_session is published by xInit, one at a time, and taken back by xShutdown. A thread
//            keeps the session that it has called last, so a call that another thread's xShutdown
//            overtakes goes on with a closed domain, which says so, and never with memory that is
//            gone. A process that ends without xShutdown is for the others one that died: they
//            clean up after it.
// Locks:     Session::mutex is the last in the order: the library's own locks (a running instance
//            is one) are taken first, so no function of tmh:: is called under it.
// Contexts:  not in signal handlers. After fork the child is refused (kDetached) until it calls
//            xInit itself.
// Source:    thesis, table 2.1 and sections 2.1 to 2.3.
#include <xac.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <sys/stat.h>

#include <tmh/tmh.hpp>

#include "platform/assert.h"

namespace {

using tmh::Errc;
using tmh::Segment;

constexpr const char *kHeapName = "heap.tmh";

struct Session {
  tmh::Domain domain;
  // Guards `segments`; never taken by xbegin, xend and their like.
  std::mutex mutex;
  std::map<std::string, Segment> segments;  // an empty handle: being mapped just now
  // Changed by xInit and inside an instance only: that makes it one thread at a time.
  Segment heap;
  std::uint32_t segments_made = 0;  // when the heap was looked for last
};

// The session's owner beside the threads that have called it.
struct Owner {
  std::mutex mutex;  // of `session`, and of changing g_session; nothing is called under it
  std::shared_ptr<Session> session;
  // Kept for ever, with what a thread may have been changing in it: see note_fork().
  Owner *parents = nullptr;
};

// Never destroyed: a destructor at exit would run while other threads may still be inside a
// transaction.
constinit std::atomic<Session *> g_session{nullptr};
// Changed by this file's initializer, and in a child.
constinit Owner *g_owner = nullptr;
// This process is a child that inherited g_session.
constinit std::atomic<bool> g_forked{false};
constinit std::atomic<bool> g_initializing{false};  // a thread is inside xInit
constinit thread_local int t_last_error = 0;
constinit thread_local char t_last_error_text[512] = {};  // empty: what xStrError() says

int fail(Errc code) noexcept {
  TMH_ASSERT(code != Errc::kOk);
  t_last_error_text[0] = '\0';
  return t_last_error = -static_cast<int>(code);
}
// text: names the file, address or value concerned; cut off where it is long.
int fail(Errc code, const char *text) noexcept {
  TMH_ASSERT(text != nullptr);
  (void)fail(code);
  t_last_error_text[std::string_view(text).copy(t_last_error_text, sizeof t_last_error_text - 1)] =
      '\0';
  return t_last_error;
}

// The session that this thread has called last. Behind the thread's thread_local objects, whose
// destructors may call.
constinit thread_local std::shared_ptr<Session> *t_own = nullptr;
// What it holds: the only look at it that most calls need.
constinit thread_local Session *t_session __attribute__((tls_model("initial-exec"))) = nullptr;

void forget_session(void *own) noexcept {
  t_session = nullptr;
  t_own = nullptr;
  delete static_cast<std::shared_ptr<Session> *>(own);
}

// Never deleted: threads that run while another is in exit() would hold a number that may be
// another library's by then.
struct ThreadEnd {
  pthread_key_t key{};
  bool is_told = pthread_key_create(&key, forget_session) == 0;
};
const ThreadEnd thread_end;

// This thread's first call of the session, or nullptr: it has been taken back meanwhile.
Session *keep_session() {
  TMH_ASSERT(g_owner != nullptr);
  if (t_own == nullptr) {
    t_own = new std::shared_ptr<Session>;
    if (thread_end.is_told) (void)pthread_setspecific(thread_end.key, t_own);
  }
  std::shared_ptr<Session> session;
  {
    const std::lock_guard lock(g_owner->mutex);
    session = g_owner->session;
  }
  t_own->swap(session);
  return t_session = t_own->get();
}

// By the exception that is being handled.
int fail_as_thrown() noexcept {
  try {
    throw;
  } catch (const tmh::Error &error) {
    return fail(error.errc(), error.what());
  } catch (const std::bad_alloc &) {
    return fail(Errc::kOutOfMemory);
  } catch (...) {
    return fail(Errc::kIo);
  }
}

// Runs body(session), which returns what the C function shall return; on any failure sets the error
// and returns it. The session stays until this thread's next call: a C++ action that an end runs
// may be one, so body() does not use it after an end.
template <class Body>
int with_session(Body &&body) noexcept {
  // acquire: pairs with the release in xInit, so that the session is seen complete.
  Session *session = g_session.load(std::memory_order_acquire);
  if (session == nullptr) return fail(Errc::kNotInitialized);
  // relaxed: set by this very thread, the only one that a fork leaves over.
  if (g_forked.load(std::memory_order_relaxed)) return fail(Errc::kDetached);
  try {
    // A later session is not at the same address while this thread keeps the one before.
    if (session != t_session) [[unlikely]]
      if (session = keep_session(); session == nullptr) return fail(Errc::kNotInitialized);
    return body(*session);
  } catch (...) {
    return fail_as_thrown();
  }
}

int to_xac(tmh::Status status) noexcept {
  // Errors are negative.
  static_assert(XAC_COMMITTED >= 0 && XAC_ABORTED >= 0 && XAC_PENDING >= 0 && XAC_FAILED >= 0);
  switch (status) {
    case tmh::Status::kCommitted:
      return XAC_COMMITTED;
    case tmh::Status::kAborted:
      return XAC_ABORTED;
    case tmh::Status::kPending:
      return XAC_PENDING;
    case tmh::Status::kFailed:
      return XAC_FAILED;
  }
  return fail(Errc::kCorrupt);
}

void require_instance(const Session &session) {
  if (session.domain.depth() == 0)
    throw tmh::Error(Errc::kEndWithoutBegin, "outside a transaction");
}

// The heap segment, mapped by the first call of this process that needs it. REQUIRES: inside an
// instance, or in xInit.
const Segment &heap_of(Session &session) {
  if (!session.heap) session.heap = session.domain.map(kHeapName);
  return session.heap;
}

// A pointer into the heap may stand in any segment. So a heap that exists is mapped before it can
// be followed.
void map_heap_if_made(Session &session) {
  struct stat status;
  if (!session.heap && ::stat((session.domain.folder() + "/" + kHeapName).c_str(), &status) == 0)
    (void)heap_of(session);
}

// In the instance that has just begun, whose snapshot holds no pointer into a heap that is made
// later. With an error it has not begun.
void look_for_heap(Session &session) {
  TMH_ASSERT(session.domain.depth() != 0);
  const std::uint32_t made = tmh::detail::segments_made(session.domain);
  if (made == session.segments_made || session.domain.depth() > 1) [[likely]]
    return;
  try {
    map_heap_if_made(session);
  } catch (const tmh::Error &error) {
    // Else a program that uses the C++ interface, too, has mapped it.
    if (error.errc() != Errc::kSegmentInUse) {
      session.domain.abort();
      throw;
    }
  } catch (...) {
    session.domain.abort();
    throw;
  }
  session.segments_made = made;
}

// One spelling per file, so that "./input.db" is "input.db".
std::string segment_name(const char *name) {
  TMH_ASSERT(name != nullptr && *name != '\0');
  return std::filesystem::path(name).lexically_normal().string();
}

// Where a file of that name is, or would be made.
std::filesystem::path real_place(std::filesystem::path file) {
  namespace fs = std::filesystem;
  constexpr int kLinksMax = 40;  // as the kernel follows
  std::error_code error;
  for (int links = 0; links < kLinksMax && fs::is_symlink(file, error); ++links)
    file = file.parent_path() / fs::read_symlink(file, error);
  return fs::weakly_canonical(file, error);
}

// By any name, also before it is made. A look that fails says no: map() looks at the file, too.
bool is_heap_file(const Session &session, const std::string &name) {
  const std::filesystem::path folder = session.domain.folder(), file = folder / name,
                              heap = folder / kHeapName;
  std::error_code error;
  return std::filesystem::equivalent(file, heap, error) || real_place(file) == real_place(heap);
}

// The segment that starts at the file's first byte. Another process may have mapped the file with
// another length: it is one and the same segment, which map() extends when it is too small.
Segment map_beginning(const Session &session, const std::string &name, std::uint64_t length) {
  TMH_ASSERT(length != 0 && length % tmh::kPageBytes == 0);
  tmh::SegmentOptions options;
  options.layout = tmh::Layout::kRaw;
  options.size_bytes = length;
  return session.domain.map(name, options);
}

bool durability_of(int flags, tmh::Durability *out) noexcept {
  TMH_ASSERT(out != nullptr);
  switch (flags) {
    case XAC_NONDURABLE:
      *out = tmh::Durability::kNone;
      return true;
    case XAC_DURABLE:
      *out = tmh::Durability::kStrict;
      return true;
    case XAC_DURABLE_BUFFERED:
      *out = tmh::Durability::kBuffered;
      return true;
    default:
      return false;
  }
}

// Held by the one xInit that runs. A flag and not a mutex: no thread ever waits for it, so it has
// no lock order.
class Initializing {
 public:
  // acquire, release: each holder sees what the one before left in g_session.
  Initializing() noexcept : held_(!g_initializing.exchange(true, std::memory_order_acquire)) {}
  ~Initializing() {
    if (held_) g_initializing.store(false, std::memory_order_release);
  }
  Initializing(const Initializing &) = delete;
  Initializing &operator=(const Initializing &) = delete;
  explicit operator bool() const noexcept { return held_; }

 private:
  bool held_;
};

// In the child. Another thread of the parent may have been changing the owner, or the session's
// segments: both stay as they are.
void note_fork() noexcept {
  // relaxed, both: the child has one thread, this one; another thread's xInit did not come along.
  g_initializing.store(false, std::memory_order_relaxed);
  g_forked.store(g_session.load(std::memory_order_relaxed) != nullptr, std::memory_order_relaxed);
  g_owner = new Owner{{}, {}, g_owner};
}

bool watch_forks() noexcept {
  static constinit bool is_watching = false;
  if (g_owner == nullptr) {
    g_owner = new Owner;
    is_watching = pthread_atfork(nullptr, nullptr, note_fork) == 0;
  }
  return is_watching;
}

// While the library is loaded: a fork in the middle of a first xInit would leave the child with an
// initialization that nobody ends.
[[maybe_unused]] const bool watches_early = watch_forks();

// `now` instead of `before`, unless another thread has been faster.
void exchange_session(const Session *before, std::shared_ptr<Session> now) noexcept {
  TMH_ASSERT(g_owner != nullptr && (before != nullptr) != (now != nullptr));
  const std::lock_guard lock(g_owner->mutex);
  if (g_owner->session.get() != before) return;
  g_owner->session.swap(now);  // the argument goes behind the lock
  // release: pairs with the acquire in with_session().
  g_session.store(g_owner->session.get(), std::memory_order_release);
}

// Others may stay, whose last one would do it. Not in a transaction, where the close is refused.
int checkpoint_before_close(const Session &session) noexcept {
  if (session.domain.durability() == tmh::Durability::kNone || session.domain.depth() != 0)
    return 0;
  try {
    session.domain.checkpoint();
    return 0;
  } catch (...) {
    return fail_as_thrown();
  }
}

// A domain that has closed with an error is closed.
bool is_open(const tmh::Domain &domain) noexcept {
  try {
    (void)domain.tracking();
    return true;
  } catch (const tmh::Error &) {
    return false;
  }
}

}  // namespace

extern "C" {

int xInit(const char *path, int flags) {
  if (path == nullptr || *path == '\0') return fail(Errc::kBadArgument);
  tmh::DomainOptions options;
  if (!durability_of(flags, &options.durability)) return fail(Errc::kBadArgument);
  try {
    if (!watch_forks()) return fail(Errc::kOutOfMemory);
    const Initializing initializing;
    if (!initializing) return fail(Errc::kAlreadyInitialized);
    if (g_forked.load(std::memory_order_relaxed)) {
      g_session.store(nullptr, std::memory_order_relaxed);  // the parent's
      g_forked.store(false, std::memory_order_relaxed);
    }
    if (g_session.load(std::memory_order_relaxed) != nullptr)
      return fail(Errc::kAlreadyInitialized);
    auto session = std::make_shared<Session>();
    session->domain = tmh::Domain::open(path, options);
    map_heap_if_made(*session);  // outside a transaction, where the file may be one of zeros
    exchange_session(nullptr, std::move(session));
    return 0;
  } catch (...) {
    return fail_as_thrown();
  }
}

int xShutdown(void) {
  return with_session([](Session &session) {
    // By another handle: other threads use the session's. Waits for their transactions, whose xend
    // still finds the session.
    tmh::Domain closing = session.domain;
    const int not_written = checkpoint_before_close(session);
    std::error_code error;
    const Errc why = static_cast<Errc>(closing.close(error).value());
    if (why == Errc::kOk || !is_open(session.domain)) exchange_session(&session, nullptr);
    if (why == Errc::kOk) return not_written;
    char text[sizeof t_last_error_text];
    (void)std::snprintf(text, sizeof text, "%s: %s", closing.last_error().c_str(),
                        tmh::message(why));
    return fail(why, text);
  });
}

void *xMmap(const char *name, size_t length) {
  void *address = MAP_FAILED;
  (void)with_session([&](Session &session) {
    if (name == nullptr || *name == '\0' || length == 0) return fail(Errc::kBadArgument);
    const std::string file = segment_name(name);
    // The heap's bytes belong to the allocator; as a raw segment they would look like user data.
    if (is_heap_file(session, file))
      throw tmh::Error(Errc::kBadArgument, file + " is the heap's file");
    if (length % tmh::kPageBytes != 0) return fail(Errc::kMisalignedLength);
    {
      const std::lock_guard lock(session.mutex);
      if (!session.segments.emplace(file, Segment()).second)
        throw tmh::Error(Errc::kSegmentInUse,
                         file + " is mapped already, and a page has one address in a process");
    }
    try {
      const Segment segment = map_beginning(session, file, length);
      std::byte *const base = segment.data();
      if (base == nullptr) throw tmh::Error(Errc::kNotInitialized, "shut down meanwhile");
      TMH_ASSERT(reinterpret_cast<std::uintptr_t>(base) % tmh::kPageBytes == 0);
      const std::lock_guard lock(session.mutex);
      session.segments[file] = segment;
      address = base;
    } catch (...) {
      const std::lock_guard lock(session.mutex);
      session.segments.erase(file);
      throw;
    }
    return 0;
  });
  return address;
}

int xMunmap(const char *name) {
  return with_session([&](Session &session) {
    if (name == nullptr || *name == '\0') return fail(Errc::kBadArgument);
    const std::string file = segment_name(name);
    Segment segment;
    {
      const std::lock_guard lock(session.mutex);
      if (const auto found = session.segments.find(file); found != session.segments.end())
        segment = found->second;
    }
    if (!segment) return fail(Errc::kNotMapped);
    session.domain.unmap(segment);
    const std::lock_guard lock(session.mutex);
    session.segments.erase(file);
    return 0;
  });
}

int xbegin(void) {
  return with_session([](Session &session) {
    session.domain.begin();
    look_for_heap(session);
    return 0;
  });
}

int xend(void) {
  return with_session([](Session &session) { return to_xac(session.domain.end()); });
}

int xendAs(int durability) {
  return with_session([durability](Session &session) {
    tmh::Durability wanted{};
    if (!durability_of(durability, &wanted)) return fail(Errc::kBadArgument);
    return to_xac(session.domain.end(wanted));
  });
}

int xFlush(void) {
  return with_session([](Session &session) {
    session.domain.flush();
    return 0;
  });
}

int xCheckpoint(void) {
  return with_session([](Session &session) {
    session.domain.checkpoint();
    return 0;
  });
}

int xArchive(const char *to) {
  return with_session([to](Session &session) {
    if (to == nullptr || *to == '\0') return fail(Errc::kBadArgument);
    return static_cast<int>(session.domain.archive(to).size());
  });
}

int xBackup(const char *to) {
  return with_session([to](Session &session) {
    if (to == nullptr || *to == '\0') return fail(Errc::kBadArgument);
    session.domain.backup(to);
    return 0;
  });
}

int xRecover(const char *path) {
  if (path == nullptr || *path == '\0') return fail(Errc::kBadArgument);
  try {
    (void)tmh::recover(path);
    return 0;
  } catch (...) {
    return fail_as_thrown();
  }
}

int xValidate(void) {
  return with_session([](Session &session) { return to_xac(session.domain.validate()); });
}

int xbeginQuery(void) {
  return with_session([](Session &session) {
    session.domain.begin_query();
    look_for_heap(session);
    return 0;
  });
}

int xendQuery(void) {
  return with_session([](Session &session) {
    session.domain.end_query();
    return 0;
  });
}

int setPageAccess(void *addr, int access) {
  return with_session([&](Session &session) {
    if (addr == nullptr || (access != XAC_READ && access != XAC_READ_WRITE))
      return fail(Errc::kBadArgument);
    session.domain.advise(addr, access == XAC_READ ? tmh::Access::kRead : tmh::Access::kReadWrite);
    return 0;
  });
}

void *xMalloc(size_t bytes) {
  void *memory = nullptr;
  (void)with_session([&](Session &session) {
    require_instance(session);
    // As malloc(0) may: a pointer that can be freed.
    memory = heap_of(session).allocate(std::max<size_t>(bytes, 1));
    return 0;
  });
  return memory;
}

void xFree(void *pointer) {
  if (pointer == nullptr) return;
  (void)with_session([&](Session &session) {
    require_instance(session);
    heap_of(session).deallocate(pointer);
    return 0;
  });
}

void *xRoot(const char *name) {
  void *cell = nullptr;
  (void)with_session([&](Session &session) {
    if (name == nullptr || *name == '\0') return fail(Errc::kBadArgument);
    require_instance(session);
    cell = heap_of(session).root_cell(name);
    return 0;
  });
  return cell;
}

int xPromote(const void *address, size_t bytes) {
  return with_session([&](Session &session) {
    require_instance(session);
    tmh::promote(address, bytes);
    return 0;
  });
}

int xSetPolicy(const char *spec) {
  return with_session([&](Session &session) {
    if (spec == nullptr) return fail(Errc::kBadArgument);
    session.domain.set_policy(spec);
    return 0;
  });
}

const char *xStrError(int code) {
  switch (code) {  // statuses first: the functions return error codes as negative numbers
    case XAC_COMMITTED:
      return "the transaction committed";
    case XAC_ABORTED:
      return "the transaction aborted; its stores were rolled back";
    case XAC_PENDING:
      return "the transaction is running and no conflict is known";
    case XAC_FAILED:
      return "the transaction is running and will abort at its end";
    default:
      break;
  }
  // Both signs mean the same. Through unsigned, because INT_MIN has no negative.
  const unsigned magnitude =
      code < 0 ? 0U - static_cast<unsigned>(code) : static_cast<unsigned>(code);
  return tmh::message(static_cast<Errc>(static_cast<int>(magnitude)));
}

int xLastError(void) { return t_last_error; }

const char *xLastErrorText(void) {
  return t_last_error_text[0] != '\0' ? t_last_error_text : xStrError(t_last_error);
}

}  // extern "C"
