#include "http/http_exchange.hpp"

#include <exception>
#include <utility>

#include "http/answers.hpp"
#include "http/connection.hpp"
#include "oncebox/error.hpp"

namespace oncebox::server {

namespace {

/// Of an answer: what is smaller is counted when its client does not take it.
constexpr std::size_t kSmallAnswerBytes = std::size_t{16} << 10;

}  // namespace

HttpExchange::HttpExchange(std::shared_ptr<Connection> connection, Request request, SteadyTime now)
    : Exchange(std::move(request)), started(now), connection_(std::move(connection)) {}

HttpExchange::~HttpExchange() {
  if (!response_.undelivered) return;
  try {
    response_.undelivered();
  } catch (...) {
    // The messages are given to others when their leases end.
  }
}

void HttpExchange::send(Response response) noexcept {
  if (!claim_answer()) return;
  response_ = std::move(response);
  try {
    hold_answer();
    deliver();
  } catch (...) {
    // Without memory for a message to its loop the connection ends with its client.
  }
}

MemoryHold HttpExchange::new_hold() const noexcept {
  return {account, is_strangers() ? MemoryPart::strangers : MemoryPart::callers};
}

/// Counts a large answer. Without memory for it the client is refused, and asks again later; but
/// not when the call has changed something that the client has to know.
void HttpExchange::hold_answer() {
  const std::size_t bytes = response_.body.capacity();
  if (response_.hold) {
    answer_hold = std::move(*response_.hold);
    response_.hold.reset();
    return answer_hold.force(bytes);
  }
  if (bytes <= kSmallAnswerBytes) return;
  answer_hold = new_hold();
  if (answer_hold.resize(bytes)) return;
  const bool changes_nothing = request_.method == Method::get || request_.method == Method::head ||
                               (route != nullptr && route->scope == Scope::read);
  if (!changes_nothing && !response_.undelivered) return answer_hold.force(bytes);
  const auto undelivered = std::exchange(response_.undelivered, nullptr);
  response_ = problem_response(no_memory_problem(), request_);
  if (undelivered) undelivered();
}

std::shared_ptr<ResponseStream> HttpExchange::send_stream(Response head) {
  auto stream = std::make_shared<HttpResponseStream>(shared_from_this());
  if (!claim_answer()) {
    close_stream();
    return stream;
  }
  response_ = std::move(head);
  is_stream_ = true;
  deliver();
  return stream;
}

/// Hands the answer to the connection. From here on only the thread of its loop touches it.
void HttpExchange::deliver() {
  if (connection_->is_calling(*this)) {
    connection_->on_answer(*this);
  } else {
    connection_->loop().post_answer(shared_from_this());
  }
}

void HttpExchange::read_body(std::shared_ptr<BodySink> sink) {
  {
    const detail::Lock lock(mutex_);
    sink_ = std::move(sink);
  }
  request_more();
}

void HttpExchange::request_more() {
  connection_->loop().post(
      [self = shared_from_this()] { self->connection_->on_body_wanted(*self); });
}

std::shared_ptr<BodySink> HttpExchange::take_sink() {
  const detail::Lock lock(mutex_);
  return std::exchange(sink_, nullptr);
}

void HttpExchange::on_gone(std::function<void()> callback) {
  {
    const detail::Lock lock(mutex_);
    if (!is_gone_) {
      gone_callback_ = std::move(callback);
      return;
    }
  }
  // Not within this call: the caller may hold a lock that the callback takes.
  connection_->loop().post(std::move(callback));
}

Standing HttpExchange::standing() const {
  if (route == nullptr) return {};
  return connection_->gate().check_again(request_, *route, connection_->certificate_name());
}

void HttpExchange::tell_gone() noexcept {
  std::function<void()> callback;
  {
    const detail::Lock lock(mutex_);
    is_gone_ = true;
    callback = std::exchange(gone_callback_, nullptr);
  }
  if (!callback || is_answered_) return;
  try {
    callback();
  } catch (...) {
    // It concerns a request that nobody waits for any more.
  }
}

void HttpExchange::forget() noexcept {
  std::function<void()> callback;
  const detail::Lock lock(mutex_);
  callback = std::exchange(gone_callback_, nullptr);
}

ExchangePtr HttpExchange::share() {
  return ExchangePtr(this, [self = shared_from_this()](Exchange*) { self->abandon(); });
}

void HttpExchange::abandon() noexcept {
  if (is_answered_) return;
  answer(*this,
         []() -> Response { throw Error(ErrorCode::internal, "the request was not answered"); });
}

HttpResponseStream::~HttpResponseStream() { exchange_->end_stream(); }

bool HttpResponseStream::write(std::string piece) noexcept {
  return exchange_->write_piece(std::move(piece));
}

void HttpResponseStream::end() noexcept { exchange_->end_stream(); }

bool HttpExchange::write_piece(std::string piece) noexcept {
  const detail::Lock lock(mutex_);
  if (is_stream_closed_ || has_stream_ended_) return false;
  if (!keep_piece(std::move(piece))) {
    is_stream_closed_ = true;
    has_overflown_ = true;
    is_posted_ = false;  // told at once: the write under way may never end
  }
  post_pieces();
  return !is_stream_closed_;
}

/// False when the client does not keep up, or there is no memory.
bool HttpExchange::keep_piece(std::string piece) noexcept {
  if (!pieces_hold_.account()) pieces_hold_ = new_hold();
  // A single piece may be larger: it is no backlog.
  const std::size_t bytes = pieces_.size() + piece.size();
  if (!pieces_.empty() && bytes > HttpResponseStream::kMaxBacklogBytes) return false;
  if (!pieces_hold_.resize(bytes)) return false;
  if (pieces_.empty()) {
    pieces_ = std::move(piece);
    return true;
  }
  try {
    pieces_ += piece;
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// Tells the connection that there are pieces, or that the stream has ended.
void HttpExchange::post_pieces() noexcept {
  if (is_posted_) return;
  try {
    connection_->loop().post(
        [self = shared_from_this()] { self->connection_->on_stream_pieces(*self); });
    is_posted_ = true;
  } catch (const std::exception&) {
    // Without memory for a message to the loop, the connection looks at its next tick.
  }
}

void HttpExchange::end_stream() noexcept {
  const detail::Lock lock(mutex_);
  if (is_stream_closed_ || std::exchange(has_stream_ended_, true)) return;
  post_pieces();
}

bool HttpExchange::has_overflown() {
  const detail::Lock lock(mutex_);
  return has_overflown_;
}

HttpExchange::StreamPieces HttpExchange::take_pieces() {
  const detail::Lock lock(mutex_);
  is_posted_ = false;
  pieces_hold_.release();
  return {.bytes = std::exchange(pieces_, {}), .has_ended = has_stream_ended_};
}

void HttpExchange::close_stream() noexcept {
  const detail::Lock lock(mutex_);
  is_stream_closed_ = true;
}

}  // namespace oncebox::server
