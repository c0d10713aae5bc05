#include "http/connection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "http/answers.hpp"
#include "http/incoming_request.hpp"

namespace oncebox::server {

namespace {

/// How much a client must send before it counts as one that goes on.
constexpr std::size_t kStepBytes = 64 << 10;
/// A body that nobody wants is read up to this size, so that the connection can be kept.
constexpr std::size_t kMaxUnwantedBytes = 64 << 10;
/// A body has room for so much at first.
constexpr std::size_t kFirstBodyBytes = 16 << 10;
/// Answers to pipelined requests gather up to this size. A larger one is not copied.
constexpr std::size_t kGatherBytes = 16 << 10;
/// What a request may hold within the place of its connection.
constexpr std::size_t kIncludedBytes = 8 << 10;
/// In which steps larger ones are counted.
constexpr std::size_t kHoldStepBytes = 16 << 10;
/// A body is there as it came and, while it is handled, as what it means.
constexpr std::size_t kCopiesOfBody = 2;
/// What a sink may be given before it asks for more, and the buffer that the next piece comes into.
constexpr std::size_t kSinkBytes = 128 << 10;

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

bool has_no_body(int status) { return status == 204 || status == 304; }

std::string title_of(const BadRequest& why) {
  if (why.code == "too_large") return "Too large";
  if (why.code == "timeout") return "Too slow";
  if (why.code == "overloaded") return "Too much at once";
  return "Not a request that can be understood";
}

wire::Problem problem_of(const BadRequest& why) {
  return {.status = why.status, .code = why.code, .title = title_of(why), .detail = why.detail};
}

void append_chunk(std::string& out, std::string_view bytes) {
  fmt::format_to(std::back_inserter(out), "{:x}\r\n", bytes.size());
  out += bytes;
  out += "\r\n";
}

}  // namespace

Connection::Connection(std::shared_ptr<EventLoop> loop, HttpService& service, std::string peer)
    : loop_(std::move(loop)),
      service_(service),
      peer_(std::move(peer)),
      parser_({.max_header_bytes = service.limits().max_header_bytes}) {}

/// One failure must not take the server down: it ends its connection.
void Connection::guard(void (Connection::*step)()) noexcept {
  if (state_ == State::closed) return;
  try {
    (this->*step)();
  } catch (...) {
    close();
  }
}

void Connection::start(ConnectionPlace place) noexcept {
  place_ = std::move(place);
  place_bytes_ = place_.memory().size();
  loop_->add(unlisted_);
  if (place_.kind() == ConnectionPlace::Kind::refused) return guard(&Connection::answer_too_many);
  wait_for(Awaited::rest_of_request);
  guard(&Connection::start_handshake);
}

void Connection::answer_too_many() {
  const Request request = make_unreadable_request(peer_);
  const Response response =
      problem_response({.status = 503,
                        .code = "overloaded",
                        .title = "Too many connections",
                        .detail = "the server has as many connections as limits.max_connections "
                                  "or limits.memory allow"},
                       request);
  append_head(response,
              {.keep_alive = false, .body_bytes = response.body.size(), .request_id = request.id});
  output_.text += response.body;
  needs_lingering_ = true;
  state_ = State::last_write;
  flush();
}

void Connection::on_handshake(IoResult result,
                              std::optional<std::string> certificate_name) noexcept {
  if (state_ == State::closed) return;
  if (result != IoResult::ok) return close();
  certificate_name_ = std::move(certificate_name);
  state_ = State::head;
  awaited_ = Awaited::nothing;
  guard(&Connection::advance);
}

void Connection::on_read(IoResult result, std::size_t bytes) noexcept {
  is_reading_ = false;
  if (state_ == State::closed) return;
  if (result == IoResult::failed) return close();
  if (result == IoResult::end_of_file) {
    has_ended_ = true;
    return guard(&Connection::on_end_of_input);
  }
  input_.commit(bytes);
  progress_bytes_ += bytes;
  if (progress_bytes_ >= kStepBytes) note_progress();
  if (state_ == State::lingering) input_.clear();
  guard(&Connection::advance);
}

/// A client may send no more and still wait for its answer. So a pending answer is still written,
/// but the handler is told (`on_gone`), because the client may also have left.
void Connection::on_end_of_input() {
  if (state_ == State::handling && is_body_complete_) {
    const auto exchange = exchange_;
    exchange->tell_gone();
    return;
  }
  if (state_ == State::last_write || is_writing_) return;
  if (state_ == State::head) return advance();
  close();
}

void Connection::on_answer(HttpExchange& exchange) noexcept {
  if (exchange_.get() != &exchange) return;
  has_answer_ = true;
  if (!is_in_handler_) guard(&Connection::advance);
}

void Connection::on_stream_pieces(HttpExchange& exchange) noexcept {
  if (exchange_.get() != &exchange || state_ != State::streaming) return;
  guard(&Connection::continue_stream);
}

void Connection::on_body_wanted(HttpExchange& exchange) noexcept {
  // Taken in any case: a sink that owns the exchange would otherwise keep it for ever.
  auto sink = exchange.take_sink();
  if (exchange_.get() != &exchange || has_answer_ || state_ != State::handling) return;
  if (sink) {
    sink_ = std::move(sink);
    note_progress();
    stream_deadline_ = progress_at_ + service_.limits().stream_timeout;
    if (!hold_request(kSinkBytes)) return guard(&Connection::end_for_memory);
  } else {
    // While the sink was busy the client could not go on.
    progress_at_ += now() - sink_busy_since_;
  }
  sink_wants_more_ = true;
  guard(&Connection::continue_body);
}

void Connection::continue_body() {
  if (std::exchange(expects_continue_, false) && input_.empty()) output_.text += kContinue;
  advance();
}

void Connection::drain() noexcept {
  if (state_ == State::handshake) return close();
  if (state_ == State::head) guard(&Connection::advance);
}

void Connection::cut() noexcept { close(); }

bool Connection::has_request() const noexcept {
  return exchange_ != nullptr || is_writing_ || (state_ == State::head && !input_.empty());
}

void Connection::advance() {
  Flow flow = Flow::go_on;
  while (flow == Flow::go_on) {
    switch (state_) {
      case State::head:
        flow = read_head();
        break;
      case State::body:
        flow = read_body();
        break;
      case State::handling:
        flow = handle();
        break;
      case State::handshake:
      case State::streaming:
      case State::last_write:
      case State::lingering:
      case State::closed:
        flow = Flow::wait;
        break;
    }
  }
  flush();
  read_more();
  const bool needs_body =
      state_ == State::body || (state_ == State::handling && sink_wants_more_ && sink_);
  if (has_ended_ && needs_body) close();
}

Connection::Flow Connection::read_head() {
  if (output_.size() >= kGatherBytes) flush();
  // The client may be gone: then the flush has closed the connection.
  if (is_writing_ || state_ == State::closed) return Flow::wait;
  if (input_.empty()) {
    if (has_ended_ || service_.is_draining()) {
      state_ = State::last_write;
    } else {
      wait_for(Awaited::request);
    }
    return Flow::wait;
  }
  auto result = parser_.read_head(input_.view());
  if (auto* bad = std::get_if<BadRequest>(&result)) {
    refuse_bytes(*bad);
    return Flow::wait;
  }
  if (auto* head = std::get_if<RequestParser::Head>(&result)) {
    input_.consume(head->consumed);
    head_bytes_ = head->consumed;
    accept(std::move(head->head));
    return Flow::go_on;
  }
  if (has_ended_) {
    state_ = State::last_write;
  } else {
    wait_for(Awaited::rest_of_request);
  }
  return Flow::wait;
}

void Connection::accept(RequestHead head) {
  keep_alive_ = head.keep_alive;
  is_http_1_1_ = head.is_http_1_1;
  is_body_complete_ = !head.has_body();
  has_answer_ = false;
  progress_bytes_ = 0;
  const auto content_length = head.content_length;
  const std::string target = std::move(head.target);

  exchange_ = std::make_shared<HttpExchange>(shared_from_this(),
                                             make_request(std::move(head), peer_), now());
  exchange_->bytes_in = head_bytes_;
  progress_at_ = exchange_->started;
  Request& request = exchange_->incoming();
  const auto expectation = request.fields.get("Expect");
  expects_continue_ =
      is_http_1_1_ && expectation && equal_ignoring_case(*expectation, "100-continue");

  if (const auto bad = read_target_into(request, target)) {
    early_ = problem_response(problem_of(*bad), request);
  } else if (expectation && !equal_ignoring_case(*expectation, "100-continue")) {
    early_ = problem_response(
        problem_of({.status = 417, .detail = "only 100-continue can be expected"}), request);
  } else {
    auto verdict = service_.gate().admit(request, certificate_name_);
    exchange_->route = verdict.route;
    early_ = std::move(verdict.refusal);
  }
  exchange_->account = account_of(*exchange_);
  receive_body(content_length);
}

/// Decides how the body of the request is read, if it has one.
void Connection::receive_body(std::optional<std::uint64_t> content_length) {
  const std::size_t limit = service_.limits().max_body_bytes;
  if (early_) {
    const bool is_small = content_length && *content_length <= kMaxUnwantedBytes;
    if (!is_body_complete_ && (!is_small || expects_continue_)) {
      state_ = State::handling;
      answer(std::move(*early_));
      return early_.reset();
    }
  } else if (!is_body_complete_ &&
             is_streamed(exchange_->route->body, exchange_->request().fields)) {
    state_ = State::handling;
    wait_for(Awaited::nothing);
    return call_handler();
  } else if (content_length && *content_length > limit) {
    return refuse_bytes({.status = 413,
                         .code = "too_large",
                         .detail = fmt::format("the body has more than {} bytes", limit)});
  }
  state_ = State::body;
  body_bytes_expected_ = static_cast<std::size_t>(content_length.value_or(0));
  if (is_body_complete_) return;
  parser_.set_body_limit(limit);
  wait_for(Awaited::rest_of_request);
  if (expects_continue_ && input_.empty()) output_.text += kContinue;
}

Connection::Flow Connection::read_body() {
  if (!is_body_complete_) {
    if (!make_room_in_body()) {
      refuse_for_memory();
      return Flow::wait;
    }
    std::string& body = exchange_->incoming().body;
    auto result = parser_.read_body(input_.view(), body);
    if (auto* bad = std::get_if<BadRequest>(&result)) {
      refuse_bytes(*bad);
      return Flow::wait;
    }
    const auto& read = std::get<RequestParser::Body>(result);
    input_.consume(read.consumed);
    exchange_->bytes_in += read.consumed;
    is_body_complete_ = read.complete;
    if (early_) body.clear();
    if (!is_body_complete_) return read.consumed > 0 && !input_.empty() ? Flow::go_on : Flow::wait;
  }
  state_ = State::handling;
  wait_for(Awaited::nothing);
  if (early_) {
    answer(std::move(*early_));
    early_.reset();
  } else {
    call_handler();
    if (has_ended_ && !has_answer_) {
      const auto exchange = exchange_;
      exchange->tell_gone();  // its last word was heard while an earlier request was under way
    }
  }
  return Flow::go_on;
}

/// Lets the body grow, in steps, to what it is going to be, before what came in is put into it.
/// False when there is no memory for that.
bool Connection::make_room_in_body() {
  std::string& body = exchange_->incoming().body;
  const std::size_t wanted = body.size() + input_.size();
  if (early_ || wanted <= body.capacity()) return true;
  const std::size_t most =
      body_bytes_expected_ > 0 ? body_bytes_expected_ : service_.limits().max_body_bytes;
  const std::size_t capacity =
      std::min(std::max({wanted, 2 * body.capacity(), std::min(kFirstBodyBytes, most)}), most);
  if (!hold_request(kCopiesOfBody * capacity)) return false;
  body.reserve(capacity);
  return true;
}

/// Counts what the request under way makes the server hold. Little is part of what the connection
/// counts for.
bool Connection::hold_request(std::size_t bytes) {
  MemoryHold& hold = exchange_->hold;
  if (bytes <= kIncludedBytes) return true;
  if (hold.size() == 0) hold = exchange_->new_hold();
  return hold.resize((bytes + kHoldStepBytes - 1) / kHoldStepBytes * kHoldStepBytes);
}

/// Who holds what the request makes the server hold: the token, or the address where there is none.
std::shared_ptr<MemoryAccount> Connection::account_of(const HttpExchange& exchange) {
  const Principal& principal = exchange.request().principal;
  if (exchange.is_strangers() || principal.is_anonymous()) return place_.address();
  if (!account_ || caller_ != principal.name) {
    account_ = service_.account_of(principal.name);
    caller_ = principal.name;
  }
  return account_;
}

void Connection::answer(Response response) {
  is_in_handler_ = true;
  exchange_->send(std::move(response));
  is_in_handler_ = false;
}

void Connection::call_handler() {
  is_in_handler_ = true;
  {
    const ExchangePtr exchange = exchange_->share();
    try {
      exchange_->route->handler(exchange);
    } catch (...) {
      exchange->send(failure_response(std::current_exception(), exchange->request()));
    }
  }
  is_in_handler_ = false;
}

Connection::Flow Connection::handle() {
  if (has_answer_) {
    write_answer();
    return Flow::go_on;
  }
  if (sink_) pump_sink();
  return Flow::wait;
}

/// Gives the sink what came in, as long as it asks for more.
void Connection::pump_sink() {
  const auto sink = sink_;
  const auto exchange = exchange_;
  while (sink_ && sink_wants_more_) {
    std::string piece;
    if (!is_body_complete_) {
      auto result = parser_.read_body(input_.view(), piece);
      if (auto* bad = std::get_if<BadRequest>(&result)) return refuse_bytes(*bad);
      const auto& read = std::get<RequestParser::Body>(result);
      input_.consume(read.consumed);
      exchange->bytes_in += read.consumed;
      is_body_complete_ = read.complete;
      if (piece.empty() && !is_body_complete_) {
        if (read.consumed > 0 && !input_.empty()) continue;
        return wait_for(Awaited::piece);
      }
    }
    sink_wants_more_ = false;
    sink_busy_since_ = now();
    wait_for(Awaited::nothing);
    try {
      if (piece.empty()) {
        sink_.reset();
        sink->on_end();
      } else {
        sink->on_data(std::move(piece), [exchange] { exchange->request_more(); });
      }
    } catch (...) {
      sink_.reset();
      exchange->send(failure_response(std::current_exception(), exchange->request()));
    }
  }
}

void Connection::write_answer() {
  const auto exchange = exchange_;
  Response& response = exchange->response();
  const Request& request = exchange->request();
  response.undelivered = nullptr;
  service_.gate().add_cors_fields(request, response);
  const bool is_head = request.method == Method::head;
  using Length = ResponseFraming::Length;
  ResponseFraming framing{.is_http_1_1 = is_http_1_1_,
                          .keep_alive = keep_alive_ && is_body_complete_ &&
                                        !service_.is_draining() && !(has_ended_ && input_.empty()),
                          .body_bytes = response.body.size(),
                          .request_id = request.id};
  if (exchange->is_stream()) {
    framing.length = is_http_1_1_ ? Length::chunked : Length::until_close;
    framing.keep_alive = framing.keep_alive && is_http_1_1_;
  } else if (response.status == 204) {
    framing.length = Length::none;
  }
  keep_alive_ = framing.keep_alive;
  sink_.reset();
  exchange->forget();
  append_head(response, framing);
  if (exchange->is_stream() && !is_head) {
    state_ = State::streaming;
    return take_stream_pieces();
  }
  exchange->close_stream();
  if (!is_head && !has_no_body(response.status)) {
    exchange->bytes_out += response.body.size();
    if (response.body.size() <= kGatherBytes) {
      output_.text += response.body;
    } else {
      output_.body = std::move(response.body);
      output_.hold = std::move(exchange->answer_hold);
    }
  }
  if (is_writing_) count_output(output_);
  finish_request();
}

void Connection::append_head(const Response& response, ResponseFraming framing) {
  std::string& text = output_.text;
  const std::size_t before = text.size();
  framing.date = loop_->http_date();
  service_.heads().append(text, response, framing);
  if (exchange_) exchange_->bytes_out += text.size() - before;
}

void Connection::take_stream_pieces() {
  const auto exchange = exchange_;
  if (exchange->has_overflown()) return close();
  if (is_writing_) return;  // they gather meanwhile, up to the stream's limit
  const auto pieces = exchange->take_pieces();
  exchange->bytes_out += pieces.bytes.size();
  if (!is_http_1_1_) {
    output_.text += pieces.bytes;
  } else if (!pieces.bytes.empty()) {
    append_chunk(output_.text, pieces.bytes);
  }
  if (!pieces.has_ended) return;
  if (is_http_1_1_) output_.text += "0\r\n\r\n";
  finish_request();
}

void Connection::continue_stream() {
  take_stream_pieces();
  advance();
}

void Connection::finish_request() {
  has_answered_ = true;
  record(exchange_->response().status, exchange_->response().cause);
  exchange_.reset();
  wait_for(Awaited::nothing);
  if (keep_alive_) {
    state_ = State::head;
    return;
  }
  needs_lingering_ = !is_body_complete_ || !input_.empty();
  state_ = State::last_write;
}

/// Answers what cannot be understood. Nobody knows where the next request would begin, so it is the
/// last answer.
void Connection::refuse_bytes(const BadRequest& why) {
  if (!exchange_) {
    exchange_ =
        std::make_shared<HttpExchange>(shared_from_this(), make_unreadable_request(peer_), now());
    exchange_->bytes_in = input_.size();
    exchange_->account = place_.address();
  }
  const auto sink = std::exchange(sink_, nullptr);
  is_body_complete_ = false;
  early_.reset();
  state_ = State::handling;
  wait_for(Awaited::nothing);
  answer(problem_response(problem_of(why), exchange_->request()));
  // Not before: with the sink the handler's share may go, and that would be answered, too.
  if (sink) sink->on_broken();
  // Otherwise the handler was faster, and its answer is under way.
  if (has_answer_) write_answer();
}

void Connection::refuse_for_memory() {
  refuse_bytes({.status = 503, .code = "overloaded", .detail = std::string(kNoMemoryDetail)});
}

void Connection::record(int status, const std::string& cause) {
  const auto took = now() - exchange_->started;
  const Route* route = exchange_->route;
  service_.record(exchange_->request(),
                  {.method = to_string(exchange_->request().method),
                   .route = route != nullptr ? std::string_view(route->pattern) : kNoRoute,
                   .status = status,
                   .took = took,
                   .bytes_in = exchange_->bytes_in,
                   .bytes_out = exchange_->bytes_out},
                  cause);
}

}  // namespace oncebox::server
