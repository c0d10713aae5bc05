#include "oncebox/publish/resend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "oncebox/driver/message_state.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/publish/delivery.hpp"

namespace oncebox::publish {

namespace {

constexpr std::size_t kPage = 100;
constexpr std::size_t kPageBytes = std::size_t{8} << 20;

/// Makes deliveries anew, one after the other.
class Resending {
 public:
  Resending(Store& store, const ResendRequest& request, const Clock& clock)
      : store_(store),
        request_(request),
        clock_(clock),
        endpoint_(endpoint_in(store, request.endpoint)),
        began_at_(clock.now()) {
    (void)request.pace.length(0);  // throws for a rate that is none
  }

  void resend(const Message& message) {
    if (!endpoint_.takes(message.topic.str())) {
      ++result_.not_wanted;
      return;
    }
    put(delivery_of(message, endpoint_.name));
  }

  /// One that failed for good.
  void revive(const MessageKey& key, const std::optional<TimePoint>& expires_at) {
    if (request_.dry_run) {
      ++result_.resent;
      return;
    }
    const std::optional<TimePoint> due = take_turn(expires_at);
    const ReviveOptions options{
        .delay = due ? std::max(*due - clock_.now(), Duration::zero()) : Duration::zero(),
        .reason = request_.reason};
    const ReviveOutcome outcome = store_.deliveries_operator().revive({&key, 1}, options).front();
    ++(outcome == ReviveOutcome::revived ? result_.resent : result_.under_way);
  }

  [[nodiscard]] const ResendResult& result() const noexcept { return result_; }

 private:
  [[nodiscard]] static Endpoint endpoint_in(Store& store, const EndpointName& name) {
    const EndpointList list = store.endpoints().list();
    const EndpointRecord* const record = list.find(name.str());
    if (record == nullptr) {
      throw Error(ErrorCode::not_found, fmt::format("there is no endpoint {}", name.str()));
    }
    if (record->status.disabled) {
      throw Error(ErrorCode::conflict,
                  fmt::format("the endpoint {0} is disabled, and would get nothing; enable it by: "
                              "oncebox endpoints resume {0}",
                              name.str()));
    }
    return record->endpoint;
  }

  void put(Message delivery) {
    const std::optional<MessageRecord> known = store_.deliveries().find(delivery.key);
    if (known && known->status == Status::processing) {
      ++result_.under_way;
      return;
    }
    if (known && known->status == Status::dead) {
      revive(delivery.key, delivery.expires_at);
      return;
    }
    if (request_.dry_run) {
      ++result_.resent;
      return;
    }
    // Who has accepted it gets it again once the store has forgotten that.
    if (known) store_.deliveries_operator().act({&delivery.key, 1}, Delete{});
    if (const auto due = take_turn(delivery.expires_at)) delivery.due_at = due;
    store_.deliveries().enqueue(delivery);
    ++result_.resent;
  }

  [[nodiscard]] std::optional<TimePoint> take_turn(const std::optional<TimePoint>& expires_at) {
    if (!request_.pace.per_second) return std::nullopt;
    const TimePoint due = began_at_ + request_.pace.length(++turns_);
    if (expires_at && due >= *expires_at) return std::nullopt;
    return due;
  }

  Store& store_;
  const ResendRequest& request_;
  const Clock& clock_;
  const Endpoint endpoint_;
  const TimePoint began_at_;
  std::size_t turns_ = 0;  // that were taken
  ResendResult result_;
};

/// What an operator cancelled is not wanted any more, and a test is over.
[[nodiscard]] bool has_failed(const MessageRecord& dead) {
  const bool is_cancelled =
      dead.history.last_error && is_cancellation_text(*dead.history.last_error);
  return !is_cancelled && !is_test(*dead.message);
}

/// Calls `visit(record)` for all that match, in the order in which they were first stored.
template <class Visit>
void for_each_message(QueueOperator& queue, MessageFilter filter,
                      const std::function<bool()>& keep_going, Visit visit) {
  ListRequest request{.filter = std::move(filter),
                      .payloads = ListPayloads::include,
                      .limit = kPage,
                      .max_bytes = kPageBytes};
  do {
    const MessagePage page = queue.list(request);
    for (const MessageRecord& record : page.records) {
      if (record.message) visit(record);
    }
    request.after = page.next;
  } while (request.after && (!keep_going || keep_going()));
}

}  // namespace

ResendResult resend_since(Store& store, const ResendRequest& request, const Clock& clock) {
  Resending resending(store, request, clock);
  // What is not done is on its way to every endpoint.
  const MessageFilter done{
      .statuses = {Status::done}, .first_seen = request.sent, .expires_after = clock.now()};
  for_each_message(store.outbox_operator(), done, request.keep_going,
                   [&](const MessageRecord& record) { resending.resend(*record.message); });
  return resending.result();
}

ResendResult resend_failed(Store& store, const ResendRequest& request, const Clock& clock) {
  Resending resending(store, request, clock);
  // A revival would drop an expiry that has passed.
  const MessageFilter dead{.statuses = {Status::dead},
                           .topic = TopicPattern(Topic(request.endpoint.str())),
                           .expires_after = clock.now()};
  for_each_message(store.deliveries_operator(), dead, request.keep_going,
                   [&](const MessageRecord& record) {
                     if (!has_failed(record)) return;
                     resending.revive(record.key, record.message->expires_at);
                   });
  return resending.result();
}

ResendResult resend_one(Store& store, const ResendRequest& request, const MessageKey& key,
                        const Clock& clock) {
  Resending resending(store, request, clock);
  const std::optional<MessageRecord> record = store.outbox().find(key);
  if (!record || !record->message) {
    throw Error(ErrorCode::not_found, "the outbox has no message with this source and id");
  }
  resending.resend(*record->message);
  return resending.result();
}

}  // namespace oncebox::publish
