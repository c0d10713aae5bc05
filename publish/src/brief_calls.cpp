#include "brief_calls.hpp"

#include <chrono>
#include <string>

#include "oncebox/error.hpp"
#include "oncebox/handler.hpp"

namespace oncebox::publish {

namespace {

constexpr Duration kRest = std::chrono::seconds{1};

}  // namespace

void BriefCalls::make(Duration within, const Call& call) {
  require_answering();
  try {
    call(CallOptions::within(within));
  } catch (const Error& error) {
    note_end(!error.retryable());
    if (!error.retryable()) throw;
    throw NotNow(kRest, std::string("the store does not answer: ") + error.what());
  } catch (...) {
    note_end(true);
    throw;
  }
  note_end(true);
}

void BriefCalls::require_answering() {
  const detail::Lock lock(mutex_);
  if (!rests_until_) return;
  if (is_tried_ || clock_.steady() < *rests_until_) {
    throw NotNow(kRest, "the store did not answer a moment ago");
  }
  is_tried_ = true;
}

void BriefCalls::note_end(bool has_answered) noexcept {
  const detail::Lock lock(mutex_);
  is_tried_ = false;
  rests_until_.reset();
  if (!has_answered) rests_until_ = clock_.steady() + kRest;
}

}  // namespace oncebox::publish
