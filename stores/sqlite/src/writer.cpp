#include "writer.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "oncebox/driver/call_scope.hpp"
#include "oncebox/error.hpp"

namespace oncebox::sqlite {

namespace {

/// Nothing when it is no `Error`.
std::optional<Error> error_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error;
  } catch (...) {
    return std::nullopt;
  }
}

bool is_limit_of_caller(const std::exception_ptr& failure) {
  const std::optional<Error> error = error_of(failure);
  return error && (error->code() == ErrorCode::timeout || error->code() == ErrorCode::cancelled);
}

// Otherwise it is the call's own fault, and the next one may succeed.
bool is_trouble_of_the_store(const std::exception_ptr& failure) {
  const std::optional<Error> error = error_of(failure);
  return error && error->retryable() && !is_limit_of_caller(failure);
}

}  // namespace

/// A call of a caller that leaves at its limit, unless the call has begun. Its item in the queue
/// may outlive the caller.
class Writer::LimitedCall final : public Call {
 public:
  LimitedCall(Call& call, Writer& writer)
      : Call(call.flush), call_(call), writer_(writer), limits_(CallScope::current()) {}

  bool begins() noexcept override {
    State state = State::waits;
    return state_.compare_exchange_strong(state, State::has_begun) || state == State::has_begun;
  }

  void run() override {
    const LimitsOf caller(limits_);
    limits_.throw_if_over();
    const Connection::Interruption interruption(writer_.connection_);
    call_.run();
  }

  [[nodiscard]] std::exception_ptr interruption() const override {
    return std::make_exception_ptr(limits_.error());
  }

  /// The error with which the caller leaves; nothing when it has to wait.
  std::optional<Error> leave() {
    State state = State::waits;
    if (!state_.compare_exchange_strong(state, State::was_left)) return std::nullopt;
    return limits_.error();
  }

 private:
  enum class State { waits, has_begun, was_left };

  Call& call_;  ///< gone when the caller has left
  Writer& writer_;
  const CallOptions limits_;
  std::atomic<State> state_ = State::waits;
};

Writer::Writer(Connection& connection, std::size_t max_waiting_calls, OnEnding on_ending)
    : connection_(connection),
      on_ending_(std::move(on_ending)),
      begin_(connection.prepare("BEGIN IMMEDIATE")),
      commit_(connection.prepare("COMMIT")),
      savepoint_(connection.prepare("SAVEPOINT one_call")),
      release_(connection.prepare("RELEASE one_call")),
      roll_back_to_(connection.prepare("ROLLBACK TO one_call")),
      calls_([this](std::span<const CallPointer> calls) { return commit(calls); },
             {.max_batch = std::min<std::size_t>(max_waiting_calls, 1'000),
              .max_queued = max_waiting_calls}) {
  sqlite3_set_authorizer(connection.handle(), &Writer::authorize, this);
  sqlite3_commit_hook(connection.handle(), &Writer::before_commit, this);
  sqlite3_rollback_hook(connection.handle(), &Writer::after_rollback, this);
}

Writer::Lending::Lending(Writer& writer) : writer_(writer) {
  writer_.is_over_ = false;
  writer_.is_lent_ = true;
  writer_.lent_on_ = std::this_thread::get_id();
}

Writer::Lending::~Lending() {
  writer_.lent_on_ = std::thread::id();
  writer_.is_lent_ = false;
  writer_.forget_what_was_taken_back();
}

// Asked when a statement is prepared.
int Writer::authorize(void* self, int action, const char* first, const char* second,
                      const char* /*database*/, const char* /*trigger*/) noexcept {
  auto& writer = *static_cast<Writer*>(self);
  if (!writer.is_lent_ || writer.uses_itself_) return SQLITE_OK;
  return writer.authorize_caller(action, first, second);
}

int Writer::authorize_caller(int action, const char* first, const char* second) noexcept {
  if (is_over_) return SQLITE_DENY;
  const auto is_ours = [](const char* savepoint) {
    return sqlite3_stricmp(savepoint, "one_call") == 0 ||
           sqlite3_stricmp(savepoint, "one_part") == 0;
  };
  switch (action) {
    case SQLITE_TRANSACTION:
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
      return SQLITE_DENY;
    case SQLITE_SAVEPOINT:
      if (is_ours(second)) return SQLITE_DENY;
      // It may run later, and often: from now on every one of them counts.
      if (sqlite3_stricmp(first, "ROLLBACK") == 0) may_go_back_ = true;
      return SQLITE_OK;
    case SQLITE_PRAGMA:
      return second != nullptr ? SQLITE_DENY : SQLITE_OK;
    default:
      return SQLITE_OK;
  }
}

// The transaction is ours to commit. While the connection is lent it has ended otherwise, and each
// statement would be one of its own, also those that were prepared before.
int Writer::before_commit(void* self) noexcept {
  return static_cast<const Writer*>(self)->is_lent_ ? 1 : 0;
}

// Not told of a ROLLBACK TO. It ends by OR ROLLBACK, RAISE(ROLLBACK), or some errors of the disk.
void Writer::after_rollback(void* self) noexcept {
  auto& writer = *static_cast<Writer*>(self);
  if (writer.is_lent_) writer.is_over_ = true;
}

void Writer::require_going_on() const {
  if (!is_over_) return;
  throw Error(ErrorCode::conflict,
              "a statement of the handler failed and ended the transaction (OR ROLLBACK, "
              "RAISE(ROLLBACK), or a disk error); everything was rolled back");
}

// What the store knows of topics and keys must not be what a savepoint of the caller took back.
void Writer::forget_what_was_taken_back() {
  if (may_go_back_) on_ending_(Ending::rolled_back);
}

Writer::Savepoint::Savepoint(Writer& writer) : writer_(writer), own_use_(writer) {
  writer_.require_going_on();
  writer_.forget_what_was_taken_back();
  writer_.connection_.execute("SAVEPOINT one_part");
}

Writer::Savepoint::~Savepoint() {
  try {
    // A full disk may have ended the whole transaction.
    if (is_open_ && writer_.connection_.in_transaction()) {
      writer_.connection_.execute("ROLLBACK TO one_part; RELEASE one_part");
      writer_.on_ending_(Ending::rolled_back);
    }
  } catch (const std::exception&) {
    // SQLite has then rolled back by itself.
  }
}

void Writer::Savepoint::release() {
  writer_.connection_.execute("RELEASE one_part");
  is_open_ = false;
}

void Writer::require_not_lent_here() const {
  if (lent_on_.load() != std::this_thread::get_id()) return;
  throw Error(ErrorCode::conflict,
              "a handler inside a transaction may change its store through the transaction only; "
              "pass the transaction to the call");
}

void Writer::run_call(Call& call) {
  require_not_lent_here();
  const std::exception_ptr failure = submit(call);
  if (failure) std::rethrow_exception(failure);
}

std::exception_ptr Writer::submit(Call& call) {
  if (!CallScope::current().is_limited()) return calls_.submit(CallPointer(CallPointer(), &call));
  const auto limited = std::make_shared<LimitedCall>(call, *this);
  return calls_.submit(limited, {}, [&] { return limited->leave(); });
}

std::vector<std::exception_ptr> Writer::commit(std::span<const CallPointer> calls) {
  const bool must_flush = std::ranges::any_of(
      calls, [](const CallPointer& call) { return call->flush == Flush::required; });
  const Flush flush = must_flush ? Flush::required : Flush::may_wait;
  try {
    for (;;) {
      begin(flush);
      if (auto failures = run_each(calls)) {
        finish(flush);
        on_ending_(Ending::committed);
        return std::move(*failures);
      }
      on_ending_(Ending::rolled_back);
    }
  } catch (...) {
    const bool says_nothing = std::exchange(caller_failed_, false);
    if (!says_nothing && is_trouble_of_the_store(std::current_exception())) has_failed_ = true;
    roll_back();
    on_ending_(Ending::rolled_back);
    if (calls.size() > 1) throw;
    return {std::current_exception()};  // as it was thrown
  }
}

void Writer::begin(Flush flush) {
  if (log_is_suspect_) mend_log();
  if (flush_ != flush) {
    // In write-ahead-log mode NORMAL leaves out the flush of a commit, and only that.
    connection_.execute(flush == Flush::required ? "PRAGMA synchronous = FULL"
                                                 : "PRAGMA synchronous = NORMAL");
    flush_ = flush;
  }
  begin_.run();
}

std::optional<std::vector<std::exception_ptr>> Writer::run_each(
    std::span<const CallPointer> calls) {
  std::vector<std::exception_ptr> failures(calls.size());
  if (calls.size() == 1) {
    // Alone, its savepoint is the transaction: what it throws rolls everything back.
    if (calls.front()->begins()) calls.front()->run();
    return failures;
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Call& call = *calls[i];
    if (!call.was_interrupted && call.begins()) failures[i] = run_in_savepoint(call);
    if (!connection_.in_transaction()) return std::nullopt;
    if (call.was_interrupted) failures[i] = call.interruption();
  }
  return failures;
}

std::exception_ptr Writer::run_in_savepoint(Call& call) {
  savepoint_.run();
  std::exception_ptr failure;
  try {
    call.run();
  } catch (...) {
    // A full disk or a disk error may have ended the whole transaction. The failure of a handler's
    // code concerns no other call.
    if (caller_failed_) require_going_on();
    if (!connection_.in_transaction()) {
      const bool was_its_limit = is_limit_of_caller(std::current_exception());
      if (!was_its_limit || call.interruption() == nullptr) throw;
      call.was_interrupted = true;
      return nullptr;
    }
    caller_failed_ = false;
    failure = std::current_exception();
    roll_back_to_.run();
    on_ending_(Ending::rolled_back);
  }
  release_.run();
  return failure;
}

void Writer::finish(Flush flush) {
  try {
    commit_.run();
  } catch (const Error& error) {
    const int code = sqlite3_extended_errcode(connection_.handle());
    if (code == SQLITE_CONSTRAINT_FOREIGNKEY) throw Error(ErrorCode::conflict, error.what());
    if ((code & 0xff) != SQLITE_IOERR) throw;
    log_is_suspect_ = true;
    if (flush == Flush::may_wait) throw;
    // Everything may have reached the log before its flush failed: if the machine stops now, the
    // next start may find the transaction complete.
    throw Error(ErrorCode::outcome_unknown, error.what());
  }
}

void Writer::roll_back() noexcept {
  try {
    if (connection_.in_transaction()) connection_.execute("ROLLBACK");
  } catch (const std::exception&) {
    // SQLite has then rolled back by itself.
  }
}

// After a failed flush the kernel may have dropped earlier, unflushed parts of the log from what it
// will ever write, while reads still show them. A commit behind such a gap would be lost when the
// machine stops. Copying the log into the database, flushed, and starting it anew closes the gap.
void Writer::mend_log() {
  flush_.reset();
  connection_.execute("PRAGMA synchronous = FULL");
  const int code = sqlite3_wal_checkpoint_v2(connection_.handle(), nullptr,
                                             SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  if (code != SQLITE_OK) {
    throw_error(connection_.handle(), code, "clear its log after a disk error");
  }
  log_is_suspect_ = false;
}

}  // namespace oncebox::sqlite
