/** The price after a discount of so many percent. */
export function discounted(price, percent) {
  return price + (price * percent) / 100;
}
