#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "connection.hpp"
#include "oncebox/call_options.hpp"
#include "oncebox/group_commit.hpp"

namespace oncebox::sqlite {

/// Whether a call's changes must be on the disk before it returns.
enum class Flush { required, may_wait };

/// The one connection that writes, owned by one thread. Calls that wait while it commits share its
/// next transaction; each has a savepoint of its own, so one that fails takes nothing with it. One
/// that is interrupted because its limit came may take the transaction back: then the others run
/// again.
class Writer {
 public:
  /// How a transaction ended, told on the writer's thread before the calls are answered. Must not
  /// throw.
  enum class Ending { committed, rolled_back };
  using OnEnding = std::function<void(Ending)>;

  /// The connection is borrowed; only the writer may use it from now on.
  Writer(Connection& connection, std::size_t max_waiting_calls, OnEnding on_ending);

  /// Runs `work()` on the writer's thread inside a transaction and answers its result when that has
  /// committed. When `work` or the commit throws, nothing of it has happened, except after
  /// `outcome_unknown`. `work` may be run a second time, after everything it did was undone. The
  /// limits of the caller hold until `work` has been done: the commit that follows is waited for.
  template <class Work>
  auto run(Flush flush, Work work) {
    struct Running final : Call {
      Running(Flush wanted, Work& call) : Call(wanted), to_run(call) {}
      void run() override { result.emplace(to_run()); }
      Work& to_run;
      std::optional<decltype(work())> result;
    };
    Running call(flush, work);
    run_call(call);
    return std::move(*call.result);
  }

  /// For `work` itself: runs code of a handler, to which the connection is lent. SQLite refuses
  /// that code every statement that ends the transaction; the store refuses it calls that would
  /// wait for the transaction. When a statement ended the transaction all the same, nothing that
  /// follows is committed, and this throws `conflict`.
  template <class CallerCode>
  void run_caller(CallerCode code) {
    const Lending lending(*this);
    caller_failed_ = true;
    code();
    require_going_on();
    caller_failed_ = false;
  }

  /// Throws `conflict` on the thread that runs a handler's code: a call would wait for that code.
  void require_not_lent_here() const;

  /// For the store, when a handler's code calls it: what is done until the end of the block is
  /// taken back unless it is released. Throws `conflict` when the transaction has ended.
  class Savepoint {
   public:
    explicit Savepoint(Writer& writer);
    ~Savepoint();
    Savepoint(const Savepoint&) = delete;
    Savepoint& operator=(const Savepoint&) = delete;
    void release();

   private:
    struct OwnUse {
      explicit OwnUse(Writer& used) : writer(used) { writer.uses_itself_ = true; }
      ~OwnUse() { writer.uses_itself_ = false; }
      OwnUse(const OwnUse&) = delete;
      OwnUse& operator=(const OwnUse&) = delete;
      Writer& writer;
    };

    Writer& writer_;
    const OwnUse own_use_;  // until this object is gone, or could not be made
    bool is_open_ = true;
  };

  /// Calls that wait for the next transaction.
  [[nodiscard]] std::size_t waiting() const { return calls_.queued(); }

  /// Whether a transaction failed because of the disk or of another process, and nobody has seen
  /// since that writes work again; for health. Commits that succeed do not count: they may have
  /// written nothing, or less than those that fail.
  [[nodiscard]] bool has_failed() const noexcept { return has_failed_; }
  void forget_failure() noexcept { has_failed_ = false; }

 private:
  struct Call {
    explicit Call(Flush wanted) : flush(wanted) {}
    virtual void run() = 0;
    /// Whether it is to be run: nobody waits for one that was withdrawn.
    virtual bool begins() noexcept { return true; }
    /// What its caller is told when it was interrupted; null when it has no limits. Made anew each
    /// time: exceptions share their text, and this one goes to another thread.
    [[nodiscard]] virtual std::exception_ptr interruption() const { return nullptr; }

    const Flush flush;
    /// It is run no more: it was interrupted, and had taken back the whole transaction.
    bool was_interrupted = false;

   protected:
    ~Call() = default;
  };
  class LimitedCall;
  /// Owns a call with limits only.
  using CallPointer = std::shared_ptr<Call>;

  class Lending {
   public:
    explicit Lending(Writer& writer);
    ~Lending();
    Lending(const Lending&) = delete;
    Lending& operator=(const Lending&) = delete;

   private:
    Writer& writer_;
  };

  // What SQLite asks or tells, on the thread that uses the connection.
  static int authorize(void* self, int action, const char* first, const char* second,
                       const char* database, const char* trigger) noexcept;
  static int before_commit(void* self) noexcept;
  static void after_rollback(void* self) noexcept;

  int authorize_caller(int action, const char* first, const char* second) noexcept;
  void require_going_on() const;
  void forget_what_was_taken_back();
  void run_call(Call& call);
  [[nodiscard]] std::exception_ptr submit(Call& call);
  std::vector<std::exception_ptr> commit(std::span<const CallPointer> calls);
  void begin(Flush flush);
  /// Nothing when a call was interrupted and has taken the transaction back.
  std::optional<std::vector<std::exception_ptr>> run_each(std::span<const CallPointer> calls);
  [[nodiscard]] std::exception_ptr run_in_savepoint(Call& call);
  void finish(Flush flush);
  void roll_back() noexcept;
  void mend_log();

  Connection& connection_;
  OnEnding on_ending_;
  Statement begin_;
  Statement commit_;
  Statement savepoint_;
  Statement release_;
  Statement roll_back_to_;
  bool is_lent_ = false;        ///< the connection, to a handler's code
  bool uses_itself_ = false;    ///< meanwhile, because that code called the store
  bool is_over_ = false;        ///< the transaction, which ended while the connection was lent
  bool may_go_back_ = false;    ///< some code has prepared a ROLLBACK TO a savepoint of its own
  bool caller_failed_ = false;  ///< what is thrown comes from a handler's code
  std::atomic<std::thread::id> lent_on_ = std::thread::id();
  std::optional<Flush> flush_;  ///< what the connection is set to
  bool log_is_suspect_ = false;
  std::atomic<bool> has_failed_ = false;
  GroupCommit<CallPointer, std::exception_ptr> calls_;  // last: its thread uses the members above
};

}  // namespace oncebox::sqlite
