#include "oncebox/driver/claim_offer.hpp"

#include <algorithm>

namespace oncebox {

ClaimOffer::ClaimOffer(ClaimRequest request) : request_(std::move(request)) {}

bool ClaimOffer::withdraw() noexcept {
  State state = State::open;
  if (state_.compare_exchange_strong(state, State::closed)) return true;
  while (state == State::taken) {
    if (state_.compare_exchange_weak(state, State::recalled)) return false;
    // It was given back at this moment.
    if (state == State::open && state_.compare_exchange_strong(state, State::closed)) return true;
  }
  return false;
}

bool ClaimOffer::accepts(std::span<const Message> messages) const noexcept {
  if (messages.size() > request_.limit) return false;
  std::size_t bytes = 0;
  for (const Message& message : messages) {
    bytes += bytes_of(message);
    if (message.partition_key || message.due_at || message.expires_at) return false;
    if (!request_.topics.matches(message.topic.str())) return false;
  }
  return messages.size() == 1 || bytes <= request_.max_bytes;
}

bool ClaimOffer::take() noexcept {
  State state = State::open;
  if (!state_.compare_exchange_strong(state, State::taken)) return false;
  if (on_take()) return true;
  give_back();
  return false;
}

void ClaimOffer::answer(std::vector<ClaimedMessage> claimed) noexcept {
  for (const Observe& observe : observers_) observe(claimed);
  state_.store(State::closed);
  on_answer(std::move(claimed));
}

void ClaimOffer::give_back() noexcept {
  State state = State::taken;
  if (state_.compare_exchange_strong(state, State::open)) return;
  state_.store(State::closed);
  on_answer({});
}

void ClaimOffers::add(const std::shared_ptr<ClaimOffer>& offer) {
  const detail::Lock lock(mutex_);
  auto offers = std::make_shared<List>();
  for (const std::weak_ptr<ClaimOffer>& known : *offers_) {
    if (!known.expired()) offers->push_back(known);
  }
  offers->push_back(offer);
  offers_ = std::move(offers);
}

TakenOffer ClaimOffers::take_for(std::span<const Message> messages) const noexcept {
  std::shared_ptr<const List> offers;
  {
    const detail::Lock lock(mutex_);
    offers = offers_;
  }
  for (const std::weak_ptr<ClaimOffer>& known : *offers) {
    std::shared_ptr<ClaimOffer> offer = known.lock();
    if (offer && offer->accepts(messages) && offer->take()) return TakenOffer(std::move(offer));
  }
  return {};
}

}  // namespace oncebox
