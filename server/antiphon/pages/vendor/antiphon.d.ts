export * from '../../../../web/antiphon.js';
