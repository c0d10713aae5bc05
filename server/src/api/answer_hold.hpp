#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "api/answer_size.hpp"
#include "http/exchange.hpp"
#include "http/http_message.hpp"
#include "http/memory_budget.hpp"
#include "oncebox/message.hpp"

namespace oncebox::server {

/// The memory of an answer that is read from a store: counted in the server's budget from before
/// the store is asked until the client has the answer.
///
/// How much a call will read is not known before. So it takes a share of what is free, asks the
/// store for no more than that, and counts what it got. The contracts allow a shorter answer.
class AnswerHold {
 public:
  /// For a call that only looks, and asks for so many bytes of messages. It can come again, so this
  /// throws `overloaded` when next to nothing is free.
  [[nodiscard]] static AnswerHold for_look(const Exchange& exchange,
                                           std::size_t asked = kMaxAnswerBytes);
  /// For a claim. Its share is smaller, because there are many of them; and there is always room
  /// for small messages, because whoever claims ends what is held.
  [[nodiscard]] static AnswerHold for_claim(const Exchange& exchange, std::size_t asked);

  /// For a call that changes something, and may answer so many bytes of JSON. It cannot be refused
  /// afterwards, so this throws `overloaded` when all of that is not free.
  [[nodiscard]] static AnswerHold for_change(const Exchange& exchange, std::size_t json_bytes);

  /// How much to ask the store for; the first message may be larger. What no store allows is left
  /// for the store to refuse.
  [[nodiscard]] std::size_t max_bytes() const noexcept { return max_bytes_; }

  /// From now on it counts what was read and the JSON that will be made of it, of so many bytes.
  /// Throws `overloaded` when there is no room for that.
  void count(std::size_t json_bytes);

  /// The answer, which from now on is all that counts.
  [[nodiscard]] Response answer(std::string json) &&;

 private:
  struct Share {
    std::size_t part;   ///< one in so many parts of what is free
    std::size_t least;  ///< bytes of messages
  };

  AnswerHold(const Exchange& exchange, std::size_t asked, const Share& share);

  std::shared_ptr<MemoryHold> hold_;
  std::size_t max_bytes_;
};

/// The answer with one message, for which the hold was taken.
[[nodiscard]] Response record_answer(AnswerHold hold, const MessageRecord& record);

}  // namespace oncebox::server
