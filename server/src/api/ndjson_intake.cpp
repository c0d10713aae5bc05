#include "api/ndjson_intake.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/api_json.hpp"
#include "api/call_limits.hpp"
#include "http/answers.hpp"

namespace oncebox::server {

namespace {

/// What the summary keeps of a line that failed, beside its detail.
constexpr std::size_t kFailureBytes = 2 * sizeof(IntakeSummary::Failure);

/// Of the whole batch, and not of one of its messages.
bool is_of_whole_batch(const Error& error) {
  return error.retryable() || error.code() == ErrorCode::corrupt ||
         error.code() == ErrorCode::conflict;
}

}  // namespace

NdjsonIntake::NdjsonIntake(ExchangePtr exchange, ServedQueuePtr queue,
                           const IntakeSettings& settings, const ApiParts& parts)
    : exchange_(std::move(exchange)),
      queue_(std::move(queue)),
      max_line_bytes_(parts.options.limits.max_line_bytes),
      clock_(parts.clock),
      defaults_(exchange_->request(), parts.clock),
      splitter_(max_line_bytes_),
      line_defaults_(defaults_.message()),
      batch_(*queue_, settings),
      hold_(exchange_->new_hold()) {
  line_defaults_.make_id = [this](std::size_t) { return defaults_.make_id(lines_ - 1); };
  line_defaults_.on_default_source = [this](std::size_t) {
    defaults_.note_default_source(lines_ - 1);
  };
}

void NdjsonIntake::on_data(std::string piece, std::function<void()> more) {
  run([this, piece = std::move(piece), more = std::move(more)] {
    splitter_.feed(
        piece, [this](std::string_view line) { take_line(line); }, [this] { take_long_line(); });
    if (!has_memory()) throw Error(ErrorCode::overloaded, std::string(kNoMemoryDetail));
    more();
  });
}

void NdjsonIntake::on_end() {
  run([this] {
    splitter_.finish([this](std::string_view line) { take_line(line); },
                     [this] { take_long_line(); });
    store_batch();
    exchange_->send(json_response(write_intake_summary(summary_)));
  });
}

void NdjsonIntake::run(std::function<void()> step) {
  try {
    auto call = [self = shared_from_this(), step = std::move(step)]() noexcept {
      try {
        step();
      } catch (...) {
        self->fail(std::current_exception());
      }
    };
    queue_->calls.submit(exchange_->request(), std::move(call));
  } catch (...) {
    fail(std::current_exception());
  }
}

/// Whether the server has memory for what is kept, which counts from now on.
bool NdjsonIntake::has_memory() {
  return hold_.resize(splitter_.kept_bytes() + batch_.bytes() + failure_bytes_);
}

void NdjsonIntake::take_line(std::string_view line) {
  ++lines_;
  if (line.find_first_not_of(" \t") == line.npos) return;
  ++summary_.received;
  try {
    Message message = wire::read_message(line, line_defaults_);
    const std::size_t place = lines_ - 1;
    CallLimits(exchange_->request()).require(message);
    defaults_.complete(message, place);
    batch_.add(std::move(message), defaults_.is_held_to_key(place), clock_.now());
    batch_lines_.push_back(lines_);
  } catch (const Error& error) {
    if (error.retryable()) throw;
    note_failure(lines_, to_string(error.code()), error.what());
  } catch (const NotAllowed& refusal) {
    note_failure(lines_, "forbidden", refusal.what());
  }
  const bool is_full = batch_lines_.size() >= kBatchLines || batch_.bytes() >= kBatchBytes;
  if (is_full || !has_memory()) store_batch();
}

void NdjsonIntake::take_long_line() {
  ++lines_;
  ++summary_.received;
  note_failure(lines_, "too_large",
               fmt::format("the line has more than {} bytes", max_line_bytes_));
}

void NdjsonIntake::note_failure(std::size_t line, std::string_view code, std::string_view detail) {
  ++summary_.failed;
  if (summary_.failures.size() == IntakeSummary::kMaxFailures) return;
  summary_.failures.push_back(
      {.line = line, .code = std::string(code), .detail = std::string(detail)});
  failure_bytes_ += kFailureBytes + detail.size();
}

void NdjsonIntake::count(const EnqueueOutcome& outcome) {
  ++summary_.statuses.at(static_cast<std::size_t>(outcome.status));
  if (outcome.hash_mismatch) ++summary_.hash_mismatches;
}

// The token may have been taken back while the body came in.
void NdjsonIntake::require_token() const {
  Standing standing = exchange_->standing();
  if (standing.refusal) throw TokenRefused(std::move(*standing.refusal));
  if (standing.is_unchanged) return;
  throw NotAllowed("the token was changed while the body came in; send the other lines again");
}

void NdjsonIntake::store_batch() {
  if (!batch_.messages().empty()) require_token();
  for (const IntakeBatch::Run& run : batch_.runs()) store_run(run);
  batch_.clear();
  batch_lines_.clear();
  lines_stored_ = lines_;
}

void NdjsonIntake::store_run(const IntakeBatch::Run& run) {
  try {
    const auto outcomes = store_messages(*queue_, exchange_->request(), run.messages, run.settings);
    for (const EnqueueOutcome& outcome : outcomes) count(outcome);
  } catch (const Error& error) {
    if (is_of_whole_batch(error)) throw;
    store_one_by_one(run);
  } catch (const NotAllowed&) {
    store_one_by_one(run);
  }
  lines_stored_ = batch_lines_[run.first + run.messages.size() - 1];
}

void NdjsonIntake::store_one_by_one(const IntakeBatch::Run& run) {
  for (std::size_t i = 0; i < run.messages.size(); ++i) {
    const std::size_t line = batch_lines_[run.first + i];
    try {
      count(store_messages(*queue_, exchange_->request(), run.messages.subspan(i, 1), run.settings)
                .front());
    } catch (const Error& error) {
      if (is_of_whole_batch(error)) throw;
      note_failure(line, to_string(error.code()), error.what());
    } catch (const NotAllowed& refusal) {
      note_failure(line, "forbidden", refusal.what());
    }
    lines_stored_ = line;
  }
}

void NdjsonIntake::fail(const std::exception_ptr& failure) noexcept {
  Response response = failure_response(failure, exchange_->request());
  response.body = with_lines_stored(response.body, lines_stored_);
  exchange_->send(std::move(response));
}

}  // namespace oncebox::server
