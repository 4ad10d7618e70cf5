export * from 'uplot';
export { default } from 'uplot';
