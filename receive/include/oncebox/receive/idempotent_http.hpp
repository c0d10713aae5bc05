#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/defaults.hpp"
#include "oncebox/idempotency_store.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/receive/receive_context.hpp"
#include "oncebox/receive/receiver_options.hpp"
#include "oncebox/surroundings.hpp"

namespace oncebox {

/// What is to be known of an HTTP request, borrowed from whatever framework took it in.
struct HttpRequestView {
  std::string_view method;
  std::string_view target;  ///< path and query, as they came
  /// The value of the header `Idempotency-Key` as it came; nothing when it is absent.
  std::optional<std::string_view> idempotency_key = {};
  std::string_view body = {};
  /// Who asks, for example an account. Keys of different scopes are different keys; without it one
  /// client could meet the answers of another.
  std::string_view scope = {};
};

struct HttpAnswer {
  using Header = std::pair<std::string, std::string>;

  int status = 200;
  std::vector<Header> headers = {};
  std::string body = {};

  /// The first header of this name, in any case; nothing when there is none.
  [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const noexcept;
  friend bool operator==(const HttpAnswer&, const HttpAnswer&) = default;
};

/// Whether an answer is the last word: all but 408, 425, 429 and 5xx, which ask to try again.
[[nodiscard]] bool is_final_status(int status) noexcept;

struct IdempotentHttpOptions {
  /// Whether a request without the header is refused. Otherwise it runs without protection.
  bool key_required = true;
  std::size_t max_key_length = 255;

  /// Which answers are stored. A request that was answered otherwise releases its key, and the next
  /// one runs the operation again, also with another body. When it throws, the operation counts as
  /// done, and its answer is not stored.
  std::function<bool(int status)> is_final = is_final_status;
  /// The headers that are not stored with an answer, in any case: what belongs to one exchange, as
  /// the id of a request does. All others are, but for those of one connection (`Connection` and
  /// what it names, `Transfer-Encoding`, …) and `Content-Length`, which are the framework's.
  std::vector<std::string> dropped_headers = {"Date", "Set-Cookie"};
  /// Status, stored headers and body together, 1 MiB at most. Of a larger answer only the fact is
  /// stored.
  std::size_t max_answer_bytes = limits::kMaxResultBytes;
  /// Added with the value "true" to an answer that is replayed; empty: nothing is.
  std::string replay_header = "Idempotent-Replayed";

  /// A page that explains the use of the header: `type` and a `Link` of every problem.
  std::string documentation_url = {};

  std::string key_prefix = "http";  ///< before every key in the store
  Duration lease = defaults::kKeyLease;
  Duration retention = std::chrono::hours{24};
  VerdictTries verdict_tries = {};  ///< the client waits for them

  /// Throws `out_of_range` or `invalid_argument`, naming the option.
  void validate() const;
};

/// The `Idempotency-Key` header of draft-ietf-httpapi-idempotency-key-header, for any framework: a
/// service hands over the request, and sends what it gets back.
///
///     const HttpAnswer answer = idempotent.handle(request, [&](ReceiveContext&) {
///       return HttpAnswer{.status = 201, .body = charge(order)};
///     });
///
/// | the request has                                      | the answer                        |
/// |------------------------------------------------------|-----------------------------------|
/// | a new key                                            | that of the operation             |
/// | a known key, the same method, target and body        | the first one, replayed           |
/// | a known key with another method, target or body      | 422                               |
/// | a key whose operation failed or asked to try again   | that of the operation, run anew   |
/// | a key whose operation runs                           | 409, with `Retry-After`           |
/// | a malformed key                                      | 400                               |
/// | no key, where one is required                        | 400                               |
/// | a key whose answer could not be stored               | 409: it is done, but not told     |
///
/// What this class answers by itself is `application/problem+json`.
///
/// **The header** is a string of RFC 8941: `"8e03978e-40d5"`, in quotes, of printable ASCII.
/// Parameters after it are ignored. As many clients leave out the quotes, a value without them is
/// taken as it is, when it has no space, quote, comma, semicolon or backslash; `"a"` and `a` are
/// the same key. Several lines of it are no key, as nobody knows which one is meant: hand over an
/// empty one, which is malformed. Safe methods do not need any of this: call it for POST and PATCH.
///
/// **The fingerprint** is the SHA-256 of method, target and body. While the operation runs it
/// stands in the store as the owner of the key, afterwards with the answer. A body that is written
/// differently is another one, whatever it means. A key whose operation failed, or was answered
/// with what is not final, is free for any request: none was done under it.
///
/// **Errors.** The draft would have every answer replayed, errors included. Here those that ask to
/// try again are not, which is deliberate: a client that was told 503 repeats its request under the
/// same key, and should not get the 503 for a day. `is_final` can say otherwise.
///
/// **Failures.** An operation that throws marks its key as failed, and the exception goes on to the
/// framework; the next request runs it again, also with another body. Errors of the store before
/// the operation are thrown as they are, and so is `invalid_argument` for a scope that is no UTF-8
/// or makes the key too long to be stored.
///
/// An answer that the store does not take, in as many tries as `verdict_tries` says, is an
/// `UnrecordedSuccess`: answer 500, the operation has taken place. The key stays busy until its
/// lease ends; then the next request runs the operation again, unless the completion was repeated
/// by then, `keys.complete(error.completion())`, with which the answer is stored as if nothing had
/// happened.
///
/// An operation that outlives its lease may have run a second time. If the other run has ended,
/// this client gets its answer, as every later one will; otherwise the one of its own run.
///
/// **Threads.** Everything but destruction is safe from any thread. Leases are extended while
/// operations run.
class IdempotentHttp {
 public:
  using Operation = std::function<HttpAnswer(ReceiveContext&)>;

  /// The store is borrowed. Of the surroundings, logger and clock are used. Throws as
  /// `IdempotentHttpOptions::validate` does.
  explicit IdempotentHttp(IdempotencyStore& keys, const IdempotentHttpOptions& options = {},
                          const Surroundings& surroundings = {});
  ~IdempotentHttp();
  IdempotentHttp(const IdempotentHttp&) = delete;
  IdempotentHttp& operator=(const IdempotentHttp&) = delete;

  [[nodiscard]] HttpAnswer handle(const HttpRequestView& request, const Operation& operation,
                                  const std::stop_token& stop = {});

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

/// The key in a value of the header; nothing when it is malformed or blank.
[[nodiscard]] std::optional<std::string> parse_idempotency_key(std::string_view value);

}  // namespace oncebox
