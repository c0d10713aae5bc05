#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "oncebox/clock.hpp"
#include "oncebox/error.hpp"
#include "oncebox/store.hpp"

namespace oncebox::http {

/// What the idempotency keys do while the service cannot be reached.
enum class OnUnavailable {
  fail_closed,  ///< calls throw: no work is done that might have been done before
  /// Work goes on as if every key were new, and may be done twice: `begin` acquires, `complete`,
  /// `fail`, `release` and `extend` succeed, `find` knows nothing. Queues always fail closed.
  fail_open,
};

/// One call about keys that was answered without the service.
struct FailedOpen {
  std::string_view call;  ///< "begin", "complete", …
  const Error& error;     ///< why
};

struct Options {
  /// Where the service is: "https://oncebox.example:8443", perhaps with a path before `/v1`. No
  /// user or password.
  std::string url;
  std::string store = {};  ///< its name there; empty: the default one

  std::string token = {};  ///< a bearer token
  /// A file with the token in it; read again when the service refuses the one it had.
  std::filesystem::path token_file = {};

  std::filesystem::path ca_file = {};             ///< PEM; empty: those that the system trusts
  std::filesystem::path client_certificate = {};  ///< PEM
  std::filesystem::path client_key = {};

  Duration connect_timeout = std::chrono::seconds{3};
  Duration call_timeout = std::chrono::seconds{30};  ///< of a call with all its retries
  int max_retries = 2;                               ///< of what is safe to repeat
  Duration retry_pause{50};          ///< before the first retry; doubled each time, up to a second
  std::size_t max_connections = 16;  ///< calls beyond wait for one
  /// A larger payload is refused here; nothing: the service decides.
  std::optional<std::size_t> max_payload_bytes = {};

  OnUnavailable on_unavailable = OnUnavailable::fail_closed;
  /// Told of every call that failed open, from the calling thread. Must not throw.
  std::function<void(const FailedOpen&)> on_failed_open = {};

  /// Throws `invalid_argument` or `out_of_range`, naming the option.
  void validate() const;
};

/// A store of a service, over HTTP. All that the contracts say holds, because a store behind the
/// service does it; opening connects to nothing yet.
///
/// **Failures.** `unavailable` and `timeout` mean that the service did not get the whole request,
/// or said itself that nothing has changed. When it may have got it and the answer was lost, the
/// code is `outcome_unknown`. Calls are repeated, with growing pauses and within `call_timeout`:
/// - any call that certainly changed nothing;
/// - those that may be lost after they were sent, and whose repetition has the same effect and
///   tells the same: everything that only reads, mark, extend, and complete, fail, release and
///   extend of keys; and enqueue, where a repetition may be answered `duplicate` for a message that
///   the first try stored.
///
/// Claim, settle, observe, reap, begin, and what an operator changes are not repeated then: a
/// second claim would leave the messages of the first leased to nobody, a second begin would find
/// its own lease, and the others would answer about what the first one did.
///
/// **Listening.** The first `listen` opens one more connection, on which the service tells of work
/// (its route `/v1/events`; the token needs the scope read). While that is not to be had, workers
/// poll.
///
/// **Transactions.** A call is one transaction, except that reviving and purging by a filter goes
/// in batches. Bodies are bounded by the service's own limit.
class HttpStore final : public Store {
 public:
  /// Throws as `Options::validate` does, and `not_found` for a token file that cannot be read.
  /// The clock, by which a lost connection that listens is made again, is borrowed.
  explicit HttpStore(const Options& options, const Clock& clock = SystemClock::shared());
  ~HttpStore() override;

  [[nodiscard]] QueueStore& inbox() override;
  [[nodiscard]] QueueStore& outbox() override;
  [[nodiscard]] QueueStore& deliveries() override;
  [[nodiscard]] IdempotencyStore& keys() override;
  [[nodiscard]] QueueOperator& inbox_operator() override;
  [[nodiscard]] QueueOperator& outbox_operator() override;
  [[nodiscard]] QueueOperator& deliveries_operator() override;
  [[nodiscard]] PolicyStore& policies() override;
  [[nodiscard]] EndpointStore& endpoints() override;
  [[nodiscard]] AuditTrail& audit() override;

  /// Those of the store behind the service, asked for once; a caller never joins its transactions.
  /// A token without the scope read gets what holds of every service.
  [[nodiscard]] Capabilities capabilities() const override;
  /// A service migrates its stores itself when it starts. Only makes sure that it serves this
  /// store, and throws as any call does when not; versions are not visible from here, and are
  /// answered 0.
  MigrationResult migrate() override;
  [[nodiscard]] Health health() noexcept override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::http
