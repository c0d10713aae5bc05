#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "oncebox/clock.hpp"
#include "oncebox/dead_query.hpp"
#include "oncebox/endpoint.hpp"
#include "oncebox/message.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/store.hpp"

/// Lets an endpoint have again what it missed, under the ids that the messages have. One that is
/// disabled is refused, `conflict`: everything would be dead at once.
namespace oncebox::publish {

struct ResendRequest {
  EndpointName endpoint;
  /// Messages of the outbox by when they were first enqueued. As far back as the outbox remembers
  /// what is done.
  TimeRange sent = {};
  /// So that a receiver that comes back is not run down. A delivery that would be later than its
  /// message expires goes out at once.
  RevivalPace pace = {};
  std::string reason = {};  ///< kept with what had failed
  bool dry_run = false;     ///< only count
  /// Asked between pages of messages: false ends it where it is. Empty: true.
  std::function<bool()> keep_going = {};
};

struct ResendResult {
  std::size_t resent = 0;
  std::size_t under_way = 0;   ///< they were left alone
  std::size_t not_wanted = 0;  ///< the endpoint's topics do not match

  friend bool operator==(const ResendResult&, const ResendResult&) = default;
};

/// All that is in the outbox, has not expired, and that the endpoint wants, whether it has accepted
/// it or not. Throws `not_found` when there is no such endpoint. When it throws later, or the
/// process dies, some have been resent: repeat it from there.
ResendResult resend_since(Store& store, const ResendRequest& request,
                          const Clock& clock = SystemClock::shared());

/// Every delivery to the endpoint that failed for good; `sent` is not looked at. A delivery that an
/// operator cancelled, that has expired, or that only was a test stays dead.
///
/// The last error tells what was cancelled: `cancelled`, or a text that begins with `cancelled: `.
/// These texts are reserved: a publisher must not fail by them.
ResendResult resend_failed(Store& store, const ResendRequest& request,
                           const Clock& clock = SystemClock::shared());

/// One message of the outbox. Throws `not_found` when there is none.
ResendResult resend_one(Store& store, const ResendRequest& request, const MessageKey& key,
                        const Clock& clock = SystemClock::shared());

}  // namespace oncebox::publish
