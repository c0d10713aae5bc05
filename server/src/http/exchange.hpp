#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/http_message.hpp"
#include "http/memory_budget.hpp"

namespace oncebox::server {

/// The rest of an answer that was begun: server-sent events. Safe from any thread.
class ResponseStream {
 public:
  virtual ~ResponseStream() = default;

  /// Sends a piece. False when the client is gone, or does not keep up: then nothing more will be
  /// sent, and the connection is closed.
  virtual bool write(std::string piece) noexcept = 0;
  virtual void end() noexcept = 0;
};

/// Takes a body piece by piece, so that a large one is never held whole. Its calls come one after
/// the other.
class BodySink {
 public:
  virtual ~BodySink() = default;

  /// The next piece. The one after it is read once `more` is called, from any thread: that is what
  /// slows a fast sender down. Not calling it, and sending an answer instead, ends the request.
  virtual void on_data(std::string piece, std::function<void()> more) = 0;
  virtual void on_end() = 0;
  /// The client is gone, or too slow.
  virtual void on_broken() noexcept = 0;
};

/// Whether a request that stays for long may go on: the tokens may have been read again since.
struct Standing {
  bool is_unchanged = true;  ///< the caller's token is what it was when the request came in
  std::optional<Response> refusal = {};  ///< the token no longer allows the call: what to answer
};

/// One request and its answer. Owned by the handler, or the call, that is going to answer; when the
/// last owner lets go without an answer, the client gets a 500. Safe from any thread.
class Exchange {
 public:
  virtual ~Exchange() = default;

  [[nodiscard]] const Request& request() const noexcept { return request_; }

  /// Which store it is about, for the log. To be told before anybody else has the exchange.
  void note_store(std::string name) { request_.store = std::move(name); }

  /// Answers; the first call counts.
  virtual void send(Response response) noexcept = 0;

  /// Begins an answer without an end.
  [[nodiscard]] virtual std::shared_ptr<ResponseStream> send_stream(Response head) = 0;

  /// Reads the body of a route that streams it.
  virtual void read_body(std::shared_ptr<BodySink> sink) = 0;

  /// Called once when the client goes away before it was answered: for claims, whose messages would
  /// otherwise be handed to nobody.
  virtual void on_gone(std::function<void()> callback) = 0;

  /// Checks the caller's token again.
  [[nodiscard]] virtual Standing standing() const = 0;
  /// Counts what a handler keeps of the request beside its body, in the server's budget of memory.
  [[nodiscard]] virtual MemoryHold new_hold() const noexcept { return {}; }

 protected:
  explicit Exchange(Request request) : request_(std::move(request)) {}

  Request request_;
};

using ExchangePtr = std::shared_ptr<Exchange>;

}  // namespace oncebox::server
