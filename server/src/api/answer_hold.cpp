#include "api/answer_hold.hpp"

#include <algorithm>
#include <utility>

#include "http/answers.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/wire/message_json.hpp"

namespace oncebox::server {

namespace {

/// What is read is there twice for a moment: as messages, and as JSON.
constexpr std::size_t kCopies = 2;
constexpr std::size_t kLeastLookBytes = std::size_t{1} << 20;
constexpr std::size_t kLeastClaimBytes = std::size_t{64} << 10;

[[noreturn]] void refuse() { throw Error(ErrorCode::overloaded, std::string(kNoMemoryDetail)); }

}  // namespace

AnswerHold::AnswerHold(const Exchange& exchange, std::size_t asked, const Share& share)
    : hold_(std::make_shared<MemoryHold>(exchange.new_hold())),
      max_bytes_(std::min(
          {asked, kMaxAnswerBytes, std::max(share.least, hold_->room() / share.part / kCopies)})) {}

AnswerHold AnswerHold::for_look(const Exchange& exchange, std::size_t asked) {
  AnswerHold answer(exchange, asked, {.part = 8, .least = kLeastLookBytes});
  if (!answer.hold_->resize(kCopies * answer.max_bytes_)) refuse();
  if (asked > limits::kMaxClaimBytes) answer.max_bytes_ = asked;
  return answer;
}

AnswerHold AnswerHold::for_claim(const Exchange& exchange, std::size_t asked) {
  AnswerHold answer(exchange, asked, {.part = 32, .least = kLeastClaimBytes});
  answer.hold_->force(kCopies * answer.max_bytes_);
  if (asked > limits::kMaxClaimBytes) answer.max_bytes_ = asked;
  return answer;
}

AnswerHold AnswerHold::for_change(const Exchange& exchange, std::size_t json_bytes) {
  AnswerHold answer(exchange, json_bytes, {.part = 1, .least = json_bytes});
  answer.count(json_bytes);
  return answer;
}

void AnswerHold::count(std::size_t json_bytes) {
  // JSON takes no less than what it is made of.
  if (!hold_->resize(kCopies * json_bytes)) refuse();
}

Response AnswerHold::answer(std::string json) && {
  Response response = json_response(std::move(json));
  hold_->force(response.body.capacity());
  response.hold = std::move(hold_);
  return response;
}

Response record_answer(AnswerHold hold, const MessageRecord& record) {
  hold.count(wire::json_size(record, ListPayloads::include));
  return std::move(hold).answer(wire::write_record(record));
}

}  // namespace oncebox::server
